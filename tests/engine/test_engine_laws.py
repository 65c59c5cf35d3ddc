"""`rejection` and `matched` through the whole engine: the law of the first tokens, by chi-square over many seeds."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from scipy.stats import chi2
from tests.adapters import write_random_adapter
from tests.doubles import Fixed, HostDrafter, RandomPacer, with_parts
from tests.trees import tree_draft, with_trees

from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

DRAWS = 1000
PROMPT = [40, 17, 99, 5, 260, 33, 8, 140, 71, 206] * 5
ALLOWED = (40, 41, 42, 43, 44)
"""All but five tokens are suppressed: a tiny vocabulary, so that pairs of tokens have counts."""
PARAMS = SamplingParams(
    max_tokens=3, temperature=0.7, n=DRAWS, seed=1, suppress_tokens=[t for t in range(300) if t not in ALLOWED]
)


@pytest.fixture(scope="module")
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=500, max_context=64).variant(budget_floor=8)


@pytest.fixture(scope="module")
def law(llm):
    """The exact law of the first two tokens, {(first, second): probability}, from plain logprobs."""
    firsts = _law(llm, PROMPT)
    return {(a, b): pa * pb for a, pa in firsts.items() for b, pb in _law(llm, [*PROMPT, a]).items()}


def _law(llm, ids) -> dict[int, float]:
    out = llm.generate([ids], SamplingParams(max_tokens=1, temperature=0.0, logprobs=300))[0]
    logits = dict(out.logprobs[0].top)
    warm = torch.tensor([logits[token] / PARAMS.temperature for token in ALLOWED], dtype=torch.float64)
    return dict(zip(ALLOWED, torch.softmax(warm, 0).tolist(), strict=True))


def check(outputs, law) -> None:
    """Chi-square of the pairs at p = 1e-4; rare pairs are put together."""
    counts = dict.fromkeys(law, 0)
    for out in outputs:
        counts[out.token_ids[:2]] += 1
    common = [pair for pair, p in law.items() if p * DRAWS >= 5]
    observed = [counts[pair] for pair in common]
    expected = [law[pair] * DRAWS for pair in common]
    observed.append(DRAWS - sum(observed))
    expected.append(DRAWS - sum(expected))
    score = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True) if e > 0.5)
    assert score < chi2.isf(1e-4, len(observed) - 1)


class Switching(HostDrafter):
    """Drafts one of several fixed tokens, by the row's history: a deterministic proposal that varies."""

    def proposal(self, rows, slot, room):
        last = int(rows.history(slot)[-1])
        return [ALLOWED[last % 5], ALLOWED[(last + 1) % 5]]


class Branching(HostDrafter):
    """Trees of the allowed tokens: one child that is seldom right, or all with some of theirs, by the row's history."""

    gives_tree = True
    budget = 12

    def plan(self, rows, room):
        return tree_draft(*(self._tree(rows, slot, most) for slot, most in zip(rows.slots, room, strict=True)))

    def _tree(self, rows, slot, room):
        last = int(rows.history(slot)[-1])
        if last % 2:
            return [(ALLOWED[last % 5], -1)]
        below = [(token, parent) for parent in range(3) for token in ALLOWED[parent : parent + 2]]
        return [(token, -1) for token in reversed(ALLOWED)] + (below if room > 1 else [])


def mixing(llm, acceptance):
    """Sparse drafts of random lengths, with plain steps in between."""
    return with_parts(llm, pacing=RandomPacer(2), drafter="sparse", acceptance=acceptance, draft_tokens=2)


def blocks(llm, acceptance):
    """Blocks of random mask projections, drawn from their own laws by each row's noise."""
    with TemporaryDirectory() as folder:
        adapter = write_random_adapter(Path(folder) / "adapter", llm)
        return llm.variant(drafter="block", adapter=str(adapter), acceptance=acceptance, draft_tokens=2)


KINDS = {
    "sparse": lambda llm, rule: llm.variant(drafter="sparse", acceptance=rule, draft_tokens=2),
    "spines": lambda llm, rule: llm.variant(drafter="sparse+racer", acceptance=rule, draft_tokens=2),
    "mixing": mixing,
    "blocks": blocks,
    "fixed": lambda llm, rule: with_parts(llm, Fixed([42, 42]), acceptance=rule, draft_tokens=2),
    "trees": lambda llm, rule: with_trees(llm, Branching(), acceptance=rule, draft_tokens=2),
    "switching": lambda llm, rule: with_parts(llm, Switching(), acceptance=rule, draft_tokens=2),
}
"""Drafters to judge by the rule: the model's own sparse drafts, with their laws, and deterministic ones (q = 1)."""


@pytest.mark.parametrize(
    ("acceptance", "kind"),
    [
        *(("rejection", kind) for kind in KINDS if kind not in ("trees", "spines")),
        ("matched", "sparse"),
        ("matched", "blocks"),
        ("coupled", "blocks"),
        ("coupled", "mixing"),
        ("matched", "trees"),
        ("coupled", "trees"),
        ("matched", "spines"),
        ("coupled", "spines"),
    ],
)
def test_the_law_of_two_tokens(llm, law, acceptance, kind):
    """A07, A09-A11 at the level of the engine."""
    outputs = KINDS[kind](llm, acceptance).generate(PROMPT, PARAMS)
    drafted = sum(out.speculation.drafted for out in outputs)
    assert 0 < sum(out.speculation.accepted for out in outputs) < drafted
    check(outputs, law)


def test_a_token_that_is_seldom_right_is_seldom_accepted(llm):
    """A09: accepted as often as it is probable, not always."""
    rare = min(_full(llm).items(), key=lambda entry: entry[1])[0]
    fast = with_parts(llm, Fixed([rare]), acceptance="rejection", draft_tokens=1)
    outs = fast.generate(PROMPT, SamplingParams(max_tokens=13, n=100, seed=3))
    drafted = sum(out.speculation.drafted for out in outs)
    assert drafted >= 1000
    assert sum(out.speculation.accepted for out in outs) < 0.02 * drafted


def _full(llm) -> dict[int, float]:
    out = llm.generate([PROMPT], SamplingParams(max_tokens=1, temperature=0.0, logprobs=300))[0]
    return dict(out.logprobs[0].top)


def test_nothing_outside_the_nucleus(llm):
    """A10: low temperature and top_p with a draft that is outside: never emitted, whatever the rule."""
    params = SamplingParams(max_tokens=12, temperature=0.3, top_p=0.5, n=20, seed=9, logprobs=300)
    for acceptance in ("rejection", "matched", "coupled"):
        for out in with_parts(llm, Fixed([3, 4, 5]), acceptance=acceptance, draft_tokens=3).generate(PROMPT, params):
            for entry in out.logprobs:
                warm = torch.tensor([value / 0.3 for _, value in entry.top], dtype=torch.float64).softmax(0)
                inside = int((warm.cumsum(0) - warm < 0.5).sum())
                assert entry.token_id in [token for token, _ in entry.top[:inside]]
