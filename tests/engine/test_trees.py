"""Draft trees through the whole engine: the text of plain decoding, and a cache, statistics and pages as after it."""

from __future__ import annotations

import random

import pytest
import torch
from tests.doubles import Empty, Oracle, RandomPacer, with_parts
from tests.engine.test_equality import PARAMS
from tests.trees import Spine, Trees, tree_draft, with_trees

from glimpse.drafting import DRAFTERS
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

MORE = PARAMS | {"logprobs": {"temperature": 0.9, "seed": 4, "logprobs": 3}}
"""Greedy and sampled, with every stateful processor and stop tokens."""


def jobs(lengths=range(1, 201)):
    """A prompt of each length, with the kinds of parameters and output lengths in turn."""
    made = []
    for place, length in enumerate(lengths):
        ids = random.Random(length).choices(range(3, 300), k=length)
        options = list(MORE.values())[place % len(MORE)]
        made.append((ids, SamplingParams(max_tokens=max(options.get("min_tokens", 0), 1 + 5 * place % 17), **options)))
    return made


def run(llm, work):
    prompts, params = zip(*work, strict=True)
    return llm.generate(prompts, params)


@pytest.fixture(scope="module")
def plain(tiny):
    return run(tiny, jobs())


def texts(outputs, work):
    return [(ids, out.token_ids) for (ids, _), out in zip(work, outputs, strict=True)]


def same(got, right):
    """Equal tokens, endings and logprobs (these but for rounding)."""
    assert [out.token_ids for out in got] == [out.token_ids for out in right]
    assert [out.finish_reason for out in got] == [out.finish_reason for out in right]
    for mine, theirs in zip(got, right, strict=True):
        assert [entry.token_id for entry in mine.logprobs or ()] == [entry.token_id for entry in theirs.logprobs or ()]
        values = [[entry.logprob for entry in out.logprobs or ()] for out in (mine, theirs)]
        assert values[0] == pytest.approx(values[1], abs=1e-4)


@pytest.mark.parametrize("rule", ["coupled", "matched"])
@pytest.mark.parametrize(
    ("shape", "nodes", "right"),
    [("random", 1, 0.5), ("random", 20, 0.6), ("random", 64, 0.9), ("wide", 64, 0.5), ("deep", 64, 0.8), ("deep", 9, 0)],
)
def test_the_text_is_plain_decodings(tiny, plain, shape, nodes, right, rule):
    drafter = Trees(texts(plain, jobs()), shape, nodes, right)
    outputs = run(with_trees(tiny, drafter, acceptance=rule, draft_tokens=8), jobs())
    same(outputs, plain)
    drafted, accepted = (sum(getattr(out.speculation, name) for out in outputs) for name in ("drafted", "accepted"))
    assert (0.01 * drafted < accepted < 0.8 * drafted) if right else accepted < 0.02 * drafted
    _all_back(tiny)


def _all_back(llm):
    pool = llm._loaded.pool
    assert (pool.free_pages, pool.promised) == (pool.pages, 0)
