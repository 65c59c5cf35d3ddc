"""Texts that must be something: legal at every node, taken back with the drafts, the same with any drafter."""

from __future__ import annotations

import json
import time
from functools import cache

import pytest
import torch

pytest.importorskip("xgrammar", reason="the extra `serve` is not installed")

from tests.tiny import write_tiny_checkpoint

from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.pipeline import Sampler
from glimpse.sampling.processors.structure import unpacked
from glimpse.sampling.schema import refuse_unenforced

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]{1,6}$"},
        "kind": {"enum": ["cat", "dog", "hat"]},
        "old": {"type": "boolean"},
        "tags": {"type": "array", "items": {"enum": ["the", "that"]}, "maxItems": 3},
    },
    "required": ["name", "kind", "old", "tags"],
    "additionalProperties": False,
}
ALL = ["none", "lookup", "suffix", "racer", "racer+suffix", "sparse", "sparse+racer", "refresh", "auto"]


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("grammar") / "tiny")
    return LLM(folder, drafter="none", pacer="fixed", device="cpu", max_batch_size=4).variant(budget_floor=8)


def check(text: str) -> None:
    value = json.loads(text)
    assert list(value) == ["name", "kind", "old", "tags"]
    assert value["kind"] in ("cat", "dog", "hat")
    assert value["old"] in (True, False)
    assert 1 <= len(value["name"]) <= 6
    assert len(value["tags"]) <= 3
    assert set(value["tags"]) <= {"the", "that"}


PROMPT = 'the {"name": "that", "kind": "hat", "old": true, "tags": ["the", "that"]} ' * 3


def of_the_schema(temperature: float, seed: int) -> SamplingParams:
    return SamplingParams(grammar={"json_schema": SCHEMA}, temperature=temperature, seed=seed, max_tokens=200)


@pytest.fixture(scope="module")
def plain(llm):
    """plain(temperature, seed) -> the tokens that plain decoding writes, once for all drafters."""
    return cache(lambda *law: llm.generate([PROMPT], of_the_schema(*law))[0].token_ids)


@pytest.mark.parametrize("drafter", ALL)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_text_of_a_schema_is_valid_with_every_drafter(llm, plain, drafter, temperature):
    """And it is the plain text: what the grammar forbids is never accepted, whoever drafts it.

    Greedy texts are the same for all seeds: twice, for drafters that remember the first.
    """
    own = {"pacer": "auto"} if drafter == "auto" else {"pacer": None}
    other = llm.variant(drafter=drafter, **own, draft_tokens=None if drafter == "none" else 4)
    for seed in range(4 if temperature else 2):
        (found,) = other.generate([PROMPT], of_the_schema(temperature, seed))
        assert found.finish_reason == "stop"
        check(found.text)
        assert found.token_ids == plain(temperature, seed)


@pytest.mark.parametrize("acceptance", ["coupled", "matched", "rejection"])
def test_every_rule_of_acceptance(llm, acceptance):
    other = llm.variant(drafter="sparse", acceptance=acceptance, draft_tokens=4)
    params = SamplingParams(grammar={"json_schema": SCHEMA}, temperature=1.0, seed=3, max_tokens=200)
    for output in other.generate(["the name is the hat"] * 4, params):
        check(output.text)


def test_a_regular_expression_and_a_grammar(llm):
    import re

    prompt = "the number is"
    for seed in range(5):
        params = SamplingParams(grammar={"regex": r"[0-9]{3}-(ab|cd)+x"}, seed=seed, temperature=1.0, max_tokens=300)
        (output,) = llm.variant(drafter="racer", draft_tokens=6).generate([prompt], params)
        assert re.fullmatch(r"[0-9]{3}-(ab|cd)+x", output.text)
    params = SamplingParams(grammar={"ebnf": 'root ::= "yes" | "no"'}, seed=0, max_tokens=20)
    assert llm.generate([prompt], params)[0].text in ("yes", "no")


def test_nodes_of_a_tree_each_have_their_own_prefix(llm):
    """A tree of two branches, one of which leaves the grammar; then a commit, after which all begins there."""
    grammars, encode = llm.loaded.grammars, llm.tokenizer.encode
    a, b, c = (encode(letter)[0] for letter in "abc")
    sampler = Sampler(1, llm.spec.vocab_size, grammars=grammars)
    params = SamplingParams(grammar={"regex": "a(b|ca)*"}).resolve({})
    sampler.admit(0, params, [5], llm.spec.eos_token_ids)
    logits = torch.zeros(5, llm.spec.vocab_size)

    def legal(tokens, parents):
        nodes = Nodes.verifying([0], [1], [0], tokens, parents, [0, len(tokens)])
        probs = sampler.laws(logits[: len(tokens) + 1], nodes).probs()
        return [set(row.nonzero()[:, 0].tolist()) for row in probs]

    (end,) = llm.spec.eos_token_ids
    root, after_a, after_ac, after_ab, beyond = legal([a, c, b, a], [-1, 0, 0, 2])
    assert root == {a}
    assert after_a == after_ab == {b, c, end}
    assert after_ac == {a}
    assert len(beyond) == llm.spec.vocab_size, "aba is no such text: nothing is masked, nobody can get there"
    sampler.commit(0, [a, c])
    assert legal([a, b], [-1, 0])[:2] == [{a}, {b, c, end}]


def test_bits():
    words = torch.tensor([[5, -(2**31)]], dtype=torch.int32)
    assert unpacked(words, 64).nonzero()[:, 1].tolist() == [0, 2, 63]


def test_a_grammar_that_no_token_continues_lets_the_text_end(llm):
    from glimpse.sampling.grammar import Guide

    class Stuck:
        def is_terminated(self):
            return False

        def fill_next_token_bitmask(self, mask, index):
            mask.zero_()
            return True

    mask = torch.zeros(1, 2, dtype=torch.int32)
    assert Guide(Stuck(), [31, 40]).legal_after([], mask)
    assert unpacked(mask, 64).nonzero()[:, 1].tolist() == [31, 40]


@pytest.mark.parametrize(
    ("grammar", "named"),
    [
        ({"regex": "("}, "parenthesis"),
        ({"regex": "(?=a)b"}, "[Ll]ookahead"),
        ({"regex": "a$b"}, "[$] holds only at the ends"),
        ({"regex": r"[^\s\S]"}, "no text"),
        ({"json_schema": {"type": "string", "pattern": "(?=a)b"}}, "[(][?]=.*lookahead"),
        ({"json_schema": {"patternProperties": {"a^b": {}}, "type": "object"}}, "holds only at the ends"),
        ({"json_schema": {"anyOf": []}}, "anyOf.*not be empty"),
        ({"json_schema": {"type": "array", "items": {"type": []}}}, "type.*not be empty"),
        ({"json_schema": {"type": "integer", "minimum": 5, "maximum": 3}}, "compiled: [A-Za-z]"),
        ({"regex": "a" * 4_097}, "4,097 characters"),
        ({"ebnf": "root ::= " + '"a"? ' * 1_800}, "9,009 characters"),
        ({"json_schema": {"type": "string", "pattern": "a" * 70_000}}, "70,033 characters"),
        ({"json_schema": {"type": "string", "pattern": "a" * 5_000}}, "pattern .*5,000 characters"),
        ({"json_schema": {"type": "object", "patternProperties": {"a" * 5_000: {}}}}, "pattern .*5,000 characters"),
        ({"json_schema": {"type": "object", "properties": {f"a{i}": {} for i in range(501)}}}, "501 may be left out"),
        ({"regex": "\ud800"}, "regex"),
        ({"ebnf": "root ::= nothing"}, "ebnf"),
        ({"json_schema": {"type": "wat"}}, "wat"),
        ({"json_schema": {"type": "integer", "multipleOf": 3}}, "multipleOf"),
        ({"json_schema": {"type": "array", "items": {"oneOf": [{}, {}]}}}, "oneOf.*anyOf"),
        ({"json_schema": {"allOf": [{"type": "integer"}, {"minimum": 5}]}}, "allOf"),
        ({"json_schema": {"$defs": {"a": {"uniqueItems": True}}, "$ref": "#/$defs/a"}}, "uniqueItems"),
        ({"json_schema": {"properties": {"a": {"$ref": "other.json"}}}}, "[$]ref.*nothing is fetched"),
        ({"json_schema": {"$dynamicRef": "#a"}}, "dynamicRef"),
        ({"json_schema": {"minimum": 3}}, "minimum.*without a type"),
        ({"json_schema": {"type": "object", "required": ["a"]}}, "required 'a'.*properties"),
        ({"json_schema": {"type": "object", "properties": {"a": {}}, "required": ["b"]}}, "required 'b'.*properties"),
        ({"json_schema": {"type": "string", "pattern": "^a+$", "maxLength": 2}}, "maxLength.*beside pattern"),
        ({"json_schema": {"type": "string", "format": "email", "maxLength": 9}}, "maxLength.*beside format"),
        ({"json_schema": {"anyOf": [{"type": "string"}], "maxLength": 2}}, "maxLength.*beside anyOf"),
        ({"json_schema": {"anyOf": [{"type": "string"}], "type": "integer"}}, "type .*'integer'.*beside anyOf"),
        ({"json_schema": {"enum": ["ab"], "maxLength": 1}}, "maxLength.*beside enum"),
        ({"json_schema": {"enum": [1, True], "type": "integer"}}, "type .*'integer'.*beside enum"),
        ({"json_schema": {"$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a", "minimum": 3}}, "minimum.*beside"),
        (
            {"json_schema": {"$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a", "type": "string"}},
            "type .*'string'",
        ),
        (
            {"json_schema": {"type": "object", "properties": {"a": {}}, "patternProperties": {"^a": {"type": "null"}}}},
            "properties.*beside patternProperties",
        ),
    ],
)
def test_what_cannot_be_enforced_is_refused(llm, grammar, named):
    with pytest.raises(ArgumentError, match=named):
        llm.generate(["a"], SamplingParams(grammar=grammar, max_tokens=3))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "enum": ["a", "b"], "description": "a letter", "title": "T", "default": "a"},
        {"type": ["string", "null"], "anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}], "default": None},
        {"$defs": {"a": {"type": "integer", "minimum": 3}}, "allOf": [{"$ref": "#/$defs/a"}], "description": "three"},
        {"type": "object", "properties": {"a": {"type": "number", "maximum": 2}}, "required": ["a"]},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
        {"type": ["integer", "string"], "minimum": 3, "maxLength": 2},
    ],
)
def test_what_is_enforced_is_let_through(schema):
    refuse_unenforced(schema)


def test_the_largest_that_is_taken_is_compiled_while_one_waits(llm):
    """2,048 characters that may be left out, and 500 such properties; 8,000 of the former took a minute, 2,000 too."""
    names = [f"a{i}" for i in range(900)]
    schema = {"type": "object", "properties": dict.fromkeys(names, True), "required": names[500:]}
    for grammar in ({"regex": "a?" * 2_048}, {"json_schema": schema}):
        begun = time.process_time()
        llm._loaded.grammars.guide(grammar)
        assert time.process_time() - begun < 10


def test_names_and_values_that_look_like_keywords_are_none(llm):
    schema = {"properties": {"not": {"const": {"if": 1}}}, "type": "object", "additionalProperties": False}
    assert llm.generate(["a"], SamplingParams(grammar={"json_schema": schema}, max_tokens=9))


@pytest.mark.parametrize(
    "other", [{"ignore_eos": True}, {"min_tokens": 2}, {"bad_words": ["a"]}, {"suppress_tokens": [3]}]
)
def test_options_that_contradict_a_grammar_are_refused(other):
    with pytest.raises(ArgumentError, match=f"{next(iter(other))}.*contradicts grammar"):
        SamplingParams(grammar={"regex": "a"}, **other)


def test_a_checkpoint_without_an_end_is_refused(tiny):
    with pytest.raises(ArgumentError, match="no end-of-text token"):
        tiny.generate(["a"], SamplingParams(grammar={"regex": "a"}))
