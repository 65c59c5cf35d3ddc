"""A21-A22: a seed fixes its own request's text and no other's; neighbours never matter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cases.doubles import RandomPacer, with_parts
from tests.cases.models import copied, prompt, ref
from tests.cases.verdicts import eq
from tests.doubles import Noisy

from glimpse.sampling import SamplingParams

IDS = copied(40)
SEVEN = SamplingParams(max_tokens=20, temperature=1.0, seed=7)
NEIGHBOURS = [prompt(length) for length in (3, 50, 17)]
OTHERS = [SamplingParams(max_tokens=25, temperature=0.8, seed=seed) for seed in (7, 8, 9)]


@pytest.mark.parametrize("rule", ["coupled", "matched", "rejection"])
@pytest.mark.parametrize("drafter", ["sparse", "lookup"])
def test_a21_the_same_seed_gives_the_same_text_alone_and_with_neighbours(mtiny, drafter, rule):
    (text,) = ref(mtiny, [IDS], SEVEN)
    llm = mtiny.variant(drafter=drafter, pacer="fixed", draft_tokens=3, acceptance=rule)
    runs = [llm.generate(IDS, SEVEN)[0].token_ids for _ in range(2)]
    outs = llm.generate([NEIGHBOURS[0], IDS, *NEIGHBOURS[1:]], [OTHERS[0], SEVEN, *OTHERS[1:]])
    assert runs[0] == runs[1] == outs[1].token_ids
    assert runs[0] == text or rule == "rejection"


@pytest.mark.parametrize("rule", ["coupled", "matched", "rejection"])
def test_a21_other_seeds_give_other_texts(mtiny, rule):
    llm = mtiny.variant(drafter="sparse", pacer="fixed", draft_tokens=3, acceptance=rule)
    outs = llm.generate([IDS] * 20, [replace(SEVEN, seed=seed) for seed in range(1, 21)])
    assert len({out.token_ids for out in outs}) == 20


def test_a22_seeded_and_unseeded_requests_in_one_batch(mtiny):
    """A is greedy without a seed, B to D are sampled with seeds; each is as if alone, whatever drafts and paces."""
    prompts = [prompt(20, name) for name in "ABCD"]
    params = [SamplingParams(max_tokens=30, temperature=0.0)]
    params += [SamplingParams(max_tokens=30, temperature=0.1, seed=seed) for seed in (1, 2, 3)]
    texts = ref(mtiny, prompts, params)
    noisy = Noisy(list(zip(prompts, texts, strict=True)), 0.3)
    eq(with_parts(mtiny, noisy, draft_tokens=4).generate(prompts, params), texts)
    eq(with_parts(mtiny, noisy, RandomPacer(6, seed=1), draft_tokens=6).generate(prompts, params), texts)
    assert len(set(texts[0])) > 15


def test_a22_unseeded_neighbours_do_not_matter_either(mtiny):
    (text,) = ref(mtiny, [IDS], SEVEN)
    unseeded = SamplingParams(max_tokens=20, temperature=1.0)
    llm = mtiny.variant(drafter="sparse", pacer="fixed", draft_tokens=3)
    for _ in range(3):
        outs = llm.generate([*NEIGHBOURS, IDS], [unseeded] * 3 + [SEVEN])
        assert outs[3].token_ids == text
    assert len({llm.generate(IDS, unseeded)[0].token_ids for _ in range(5)}) == 5
