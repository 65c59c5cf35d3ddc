"""A67, A68: a processor with a state per node, as a grammar is, under drafts that break it or run past its end, and
under preemption.

First a `Processor` of the tests' own, whose state moves with committed tokens only and that sees at each node what
would stand before it; then what users ask for, `SamplingParams.grammar`.
"""

from __future__ import annotations

import math
import random
import re
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.cases.doubles import Fixed, drafting, with_parts
from tests.cases.mini import mini
from tests.cases.models import GREEDY, plain, prompt, write_constant
from tests.cases.verdicts import dist, eq, ledger
from tests.tiny import write_json

from glimpse.engine.submit import make_requests
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams
from glimpse.sampling.processors import Processor

END = 2
IDS = prompt(20, "a67")


class ThreeDigits(Processor[list[int]]):
    """The regular expression [0-9]{3}, then the end of text; its state is what was committed."""

    def __init__(self, digits):
        super().__init__()
        self.digits, self.history = set(digits), []

    def state_of(self, request):
        return []

    def commit(self, row, tokens):
        self.states[row] += tokens
        self.history.append((row, list(self.states[row])))

    def apply(self, scores, nodes, served):
        for node in served:
            prefix = [*self.states[nodes.rows[node]], *list(nodes.ancestors(node))[::-1]]
            whole = len(prefix) <= 3 and self.digits.issuperset(prefix)
            # Behind its end, or a token that it rules out, there is nothing to ask: such a node is never reached.
            if whole:
                kept = scores[node, allowed := list(self.digits) if len(prefix) < 3 else [END]].clone()
                scores[node] = -float("inf")
                scores[node, allowed] = kept


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grammar")
    found = mini(folder, rows=4, max_context=64)
    write_json(folder / "generation_config.json", {"eos_token_id": END})
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=4, max_context=64, device="cpu") if found else None


def bound(llm):
    """`llm` with the grammar in its sampler, and the grammar."""
    grammar = ThreeDigits(token for (token,) in (llm.tokenizer.encode(digit) for digit in "0123456789"))
    llm._engine.parts.sampler._processors.append(grammar)
    return llm, grammar


def written(out, llm):
    return llm.tokenizer.decode(out.token_ids)


@pytest.fixture(scope="module", params=["greedy", "T=1"])
def job(request, llm):
    params = SamplingParams(temperature=float(request.param == "T=1"), seed=5)
    out = bound(plain(llm))[0].generate([IDS], params)[0]
    assert re.fullmatch("[0-9]{3}", written(out, llm))
    assert (out.token_ids[-1], out.finish_reason) == (END, "stop")
    return params, out.token_ids


@pytest.mark.parametrize("beyond", [1, 2, 3, 4])
@pytest.mark.parametrize("acceptance", ["coupled", "matched"])
def test_a67_drafts_beyond_the_end(llm, job, beyond, acceptance):
    params, text = job
    drafts = [[*text[1:], *[9] * beyond], [*text[1:], *text[:beyond]], [END] * (beyond + 3)]
    for draft in drafts:
        fast, grammar = bound(with_parts(llm, Fixed(draft), draft_tokens=8, acceptance=acceptance))
        with ledger(fast):
            out = fast.generate([IDS], params)[0]
        eq([out], [text])
        assert out.speculation.drafted > 3
        assert [state for _, state in grammar.history] == [list(text[: len(state)]) for _, state in grammar.history]
        assert not grammar.states


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a67_drafts_that_break_it(llm, job, place):
    """The state after a rejection is the one before plus the accepted tokens."""
    params, text = job
    draft = [*text[1:], *text[:4]][:4]
    draft[place] = next(token for token in range(40, 60) if token not in text)
    fast, grammar = bound(with_parts(llm, Fixed(draft), draft_tokens=8))
    out = fast.generate([IDS], params)[0]
    eq([out], [text])
    states = [state for _, state in grammar.history if state]
    assert states[0] == [text[0]]
    assert states[1] == list(text[: min(place + 2, 4)])
    assert states[-1] == list(text)


@pytest.fixture(scope="module", params=["greedy", "T=1"])
def asked(request, llm):
    """The same by `SamplingParams.grammar`, plainly."""
    pytest.importorskip("xgrammar", reason="the extra `serve` is not installed")
    params = SamplingParams(temperature=float(request.param == "T=1"), seed=5, grammar={"regex": "[0-9]{3}"})
    out = plain(llm).generate([IDS], params)[0]
    assert re.fullmatch("[0-9]{3}", written(out, llm))
    assert (out.token_ids[-1], out.finish_reason) == (END, "stop")
    return params, out.token_ids


@pytest.mark.parametrize("beyond", [1, 2, 3, 4])
@pytest.mark.parametrize("acceptance", ["coupled", "matched"])
def test_a67_a_regular_expression_under_drafts_beyond_its_end(llm, asked, beyond, acceptance):
    params, text = asked
    for draft in ([*text[1:], *[9] * beyond], [*text[1:], *text[:beyond]], [END] * (beyond + 3)):
        fast = with_parts(llm, Fixed(draft), draft_tokens=8, acceptance=acceptance)
        with ledger(fast):
            eq(fast.generate([IDS], params), [text])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a67_a_regular_expression_under_drafts_that_break_it(llm, asked, place):
    params, text = asked
    draft = [*text[1:], *text[:4]][:4]
    draft[place] = next(token for token in range(40, 60) if token not in text)
    eq(with_parts(llm, Fixed(draft), draft_tokens=8).generate([IDS], params), [text])


@pytest.mark.parametrize("acceptance", ["coupled", "matched", "rejection"])
def test_a67_the_law_of_what_a_regular_expression_leaves(tmp_path, acceptance):
    """The target's own law, of the digits alone, though half of the time it would write something else."""
    pytest.importorskip("xgrammar", reason="the extra `serve` is not installed")
    encode = mini(tmp_path / "tokens").tokenizer.encode
    digits = [encode(digit)[0] for digit in "012"]
    law = dict(zip(digits, (0.25, 0.15, 0.1), strict=True)) | {encode("x")[0]: 0.5}
    folder = write_constant(tmp_path / "m", {token: math.log(p) for token, p in law.items()} | {END: -9.0})
    write_json(folder / "generation_config.json", {"eos_token_id": END})
    llm = LLM(folder, drafter="none", pacer="fixed", max_batch_size=100, max_context=64, device="cpu")
    params = SamplingParams(n=100, temperature=1.0, seed=2, grammar={"regex": "[0-2]{40}"})
    fast = with_parts(llm, Fixed([digits[2]] * 2, [digits[0], digits[1]]), draft_tokens=2, acceptance=acceptance)
    outs = fast.generate([5], params)
    assert sum(out.speculation.accepted for out in outs) > 100
    assert {out.token_ids[-1] for out in outs} == {END}
    dist([digits.index(token) for out in outs for token in out.token_ids[:-1]], [0.5, 0.3, 0.2])


def test_a68_a_regular_expression_goes_on_where_it_was(llm, asked):
    params, text = asked
    fast = drafting(llm, "FIXED", [(IDS, text)], draft_tokens=2)
    with ledger(fast):
        (request,) = make_requests(fast.loaded, fast._engine, IDS, params)
        fast._engine.add(request)
        while fast._engine.busy:
            fast._engine.step()
            fast._engine.preempt(request)
    assert tuple(request.committer.token_ids) == text


@contextmanager
def scarce(llm, pages):
    """A cache of so many pages."""
    pool = llm.loaded.pool
    taken = pool.allocate(pool.free_pages - pages, 0)
    try:
        yield
    finally:
        pool.release(taken)


def together(llm, prompts, params):
    """Runs them all; returns their tokens and how often any was put back, having looked at the rows after each step."""
    engine, rows = llm._engine, llm._engine.parts.rows
    requests = [make_requests(llm.loaded, engine, ids, own)[0] for ids, own in zip(prompts, params, strict=True)]
    for request in requests:
        engine.add(request)
    while engine.busy:
        engine.step()
        for slot in rows.free_slots():
            assert int(rows.draft_len[slot]) == 0
            assert slot not in rows.branching
    return [tuple(request.committer.token_ids) for request in requests], sum(r.preempted for r in requests)


@pytest.mark.parametrize("name", ["NOISY", "SELF", "LOOKUP"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a68_rows_put_back_are_as_if_alone(tmp_path, name, temperature):
    """Four rows, pages for about two: they are put back when pages run out, their drafts with them."""
    llm = mini(tmp_path, rows=4, max_context=128)
    prompts = [prompt(length, "a68") for length in (20, 5, 33, 12)]
    params = [replace(GREEDY, max_tokens=80, temperature=temperature, seed=seed) for seed in range(4)]
    right = [plain(llm).generate([ids], own)[0].token_ids for ids, own in zip(prompts, params, strict=True)]
    texts = list(zip(prompts, right, strict=True))
    fast = drafting(llm, name, texts, p=0.3, reserve="next")
    with ledger(fast), scarce(llm, 13):
        found, put_back = together(fast, prompts, params)
    assert found == right
    assert put_back > 0


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("name", ["FIXED", "SELF"])
def test_a68_a_grammar_goes_on_where_it_was(llm, job, name, steps):
    params, text = job
    texts = [(IDS, text)]
    fast, grammar = bound(drafting(llm, name, texts, draft_tokens=2))
    with ledger(fast):
        (request,) = make_requests(fast.loaded, fast._engine, IDS, params)
        fast._engine.add(request)
        for _ in range(steps):
            fast._engine.step()
        fast._engine.preempt(request)
        assert int(fast._engine.parts.rows.draft_len.sum()) == 0
        while fast._engine.busy:
            fast._engine.step()
    assert tuple(request.committer.token_ids) == text
    assert not grammar.states


def test_a68_random_preemptions(llm, job):
    """Whoever is put back whenever, with a grammar in every row."""
    params, text = job
    draw = random.Random(3)
    fast, _ = bound(drafting(llm, "FIXED", draft_tokens=3))
    with ledger(fast):
        requests = [make_requests(fast.loaded, fast._engine, IDS, params)[0] for _ in range(6)]
        for request in requests:
            fast._engine.add(request)
        while fast._engine.busy:
            fast._engine.step()
            fast._engine.preempt(draw.choice(requests)) if draw.random() < 0.4 else None
    assert {tuple(request.committer.token_ids) for request in requests} == {text}
