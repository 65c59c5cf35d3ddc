"""A31-A33, A35: prompts shorter than a draft, empty drafts, the range of n-grams, request after request."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.cases.doubles import NAMES, Empty, Fixed, Oracle, drafting, lookup, watched, watched_steps, with_parts
from tests.cases.models import GREEDY, narrow, prompt, ref, texts_of
from tests.cases.verdicts import eq, ledger

from glimpse.drafting.lookup import LookupDrafter
from glimpse.errors import ArgumentError

IDS = prompt(30)
ABC = (40, 41, 42)


@pytest.mark.parametrize("length", range(1, 11))
def test_a31_prompts_shorter_than_a_draft_or_an_n_gram(mtiny, length):
    ids, params = prompt(length), narrow(replace(GREEDY, max_tokens=20), ABC)
    (text,) = ref(mtiny, [ids], params)
    three = with_parts(mtiny, LookupDrafter(3, 3), draft_tokens=4)
    eq(three.generate(ids, params), [text])
    for name in NAMES:
        eq(drafting(mtiny, name, [(ids, text)], 4).generate(ids, params), [text])


@pytest.mark.parametrize("drafts", [[[]], [[], None], [None, []], [[], [], None]])
def test_a32_empty_drafts_are_plain_steps(mtiny, drafts):
    """100 steps; None stands for the next 4 tokens of the text, [] for no draft."""
    long = replace(GREEDY, max_tokens=300)
    (text,) = ref(mtiny, [IDS], long)

    class Taking(Oracle):
        turn = 0

        def proposal(self, rows, slot, room):
            self.turn += 1
            given = drafts[self.turn % len(drafts)]
            return super().proposal(rows, slot, min(room, 4)) if given is None else given

    fast, rule = watched(with_parts(mtiny, Taking([(IDS, text)]), draft_tokens=4))
    steps = watched_steps(fast)
    out = fast.generate(IDS, long)[0]
    eq([out], [text])
    assert len(rule.rounds) >= 100
    fed = [row for step in steps for row in step]
    assert all(count == drafted + 1 for _, drafted, count in fed)
    assert sum(drafted == 0 for _, drafted, _ in fed) == out.speculation.plain_steps >= 49
    assert out.speculation.accepted == out.speculation.drafted


def test_a32_all_rows_of_a_batch_are_empty(mtiny):
    prompts = [prompt(length) for length in (1, 5, 30, 60)]
    texts = ref(mtiny, prompts)
    fast = with_parts(mtiny, Empty(), draft_tokens=4)
    steps = watched_steps(fast)
    with ledger(fast):
        outs = fast.generate(prompts, GREEDY)
    eq(outs, texts)
    assert [out.speculation.plain_steps for out in outs] == [39] * 4
    assert {row[1:] for step in steps for row in step} == {(0, 1)}
    assert len(steps) <= 41


def test_a32_some_rows_of_a_batch_are_empty(mtiny):
    prompts = [prompt(length) for length in (1, 5, 30, 60)]
    texts = ref(mtiny, prompts)
    fast = with_parts(mtiny, Fixed([], [5, 6, 7, 8], [9], [], []), draft_tokens=4)
    steps = watched_steps(fast)
    eq(fast.generate(prompts, GREEDY), texts)
    fed = [row for step in steps for row in step]
    assert {1, 2, 5} <= {count for *_, count in fed}
    assert all(count == drafted + 1 for _, drafted, count in fed)


ONLY_PAIRS = [60, 61, 70, 62, 61, 71, 60, 61]
"""60, 61 occurs twice and no longer n-gram does."""


@pytest.mark.parametrize(
    ("given", "effective", "drafts"),
    [
        ({"min_match": 1, "max_match": 4}, (1, 4), True),
        ({"min_match": 4, "max_match": 4}, (4, 4), False),
        ({"max_match": 4}, (2, 4), True),
        ({"min_match": 2}, (2, 16), True),
        ({}, (2, 16), True),
    ],
)
def test_a33_the_range_that_is_documented_is_used_and_told(mtiny, given, effective, drafts):
    """Only a pair repeats; the prompt lacks its last token, which is what the prefill then gives."""
    drafter = LookupDrafter(**given)
    assert (drafter.min_match, drafter.max_match) == effective
    llm = with_parts(mtiny, drafter)
    assert (llm.settings["min_match"], llm.settings["max_match"]) == effective
    fast, rule = watched(with_parts(mtiny, LookupDrafter(**given), draft_tokens=2))
    fast.generate(ONLY_PAIRS[:-1], replace(GREEDY, max_tokens=4, logit_bias={61: 1000.0}))
    first = [made for made in rule.drafted if made.position == len(ONLY_PAIRS)]
    assert [made.draft for made in first] == ([[70, 62]] if drafts else [])


@pytest.mark.parametrize("given", [{"min_match": 4, "max_match": 2}, {"max_match": 1}, {"min_match": 0}])
def test_a33_an_empty_range_is_refused(given):
    with pytest.raises(ArgumentError, match="give 1 <= least <= most"):
        LookupDrafter(**given)


@pytest.mark.parametrize(
    ("ids", "right"),
    [
        ([59, 60, 61, 70, 62, 60, 61, 71, 59, 60], {16: 70, 3: 70, 2: 71}),
        ([57, 58, 59, 60, 61, 70, 9, 58, 59, 60, 61, 71, 57, 58, 59, 60], {16: 70, 5: 70, 4: 71, 3: 71, 2: 71}),
    ],
)
def test_a33_the_longest_match_up_to_the_most(mtiny, ids, right):
    """A longer match is preferred to a later one, as far as tokens are compared at all."""
    for most, token in right.items():
        fast, rule = watched(with_parts(mtiny, LookupDrafter(2, most), draft_tokens=1))
        fast.generate(ids, replace(GREEDY, max_tokens=3, logit_bias={61: 1000.0}))
        assert rule.drafted[0].draft == [token]


@pytest.mark.parametrize("drafter", ["lookup", "sparse", "suffix", "racer"])
def test_a35_five_identical_requests_one_after_another(mtiny, drafter):
    """A prompt of the few tokens that the text is made of, so that the first drafts come from the prompt."""
    ids, params = random.Random(1).choices(ABC, k=60), narrow(replace(GREEDY, max_tokens=12), ABC)
    llm = mtiny.variant(drafter=drafter, pacer="fixed", draft_tokens=4)
    runs = [llm.generate(ids, params)[0] for _ in range(5)]
    counts = {(out.speculation.drafted, out.speculation.accepted, out.token_ids) for out in runs}
    assert len(counts) == 1
    assert runs[0].speculation.drafted > 0
    assert runs[0].token_ids == texts_of(mtiny, [ids], params)[0][1]


def test_a35_with_other_requests_in_between(mtiny):
    ids, params = random.Random(1).choices(ABC, k=60), narrow(replace(GREEDY, max_tokens=12), ABC)
    llm = lookup(mtiny)
    runs = []
    for turn in range(3):
        runs.append(llm.generate(ids, params)[0].speculation)
        llm.generate([prompt(40, turn), ids], replace(params, max_tokens=5))
    assert len({(run.drafted, run.accepted) for run in runs}) == 1 < runs[0].drafted
