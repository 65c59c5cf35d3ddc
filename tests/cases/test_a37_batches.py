"""A37-A40: each row of a batch is as if alone, whatever its neighbours draft, and however they come and go."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from tests.adapters import write_random_adapter
from tests.cases.doubles import NAMES, RandomPacer, drafting, watched, watched_steps, with_parts
from tests.cases.models import GREEDY, VOCAB, copied, narrow, prompt, ref
from tests.cases.verdicts import eq, ledger
from tests.doubles import Noisy

from glimpse.drafting import DRAFTERS
from glimpse.engine.submit import make_requests
from glimpse.llm import LLM

FRIENDLY = narrow(replace(GREEDY, max_tokens=30))
PROMPTS = [copied(20 + row, row) if row % 2 == 0 else prompt(3 + 7 * row, row) for row in range(8)]
PARAMS = [FRIENDLY if row % 2 == 0 else replace(GREEDY, max_tokens=25 - row) for row in range(8)]


@pytest.fixture(scope="module")
def texts(tiny):
    return ref(tiny, PROMPTS, PARAMS)


@pytest.fixture(scope="module")
def small(tiny_folder):
    """Four rows."""
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=4, max_context=128, device="cpu").variant(
        budget_floor=8
    )


@pytest.mark.parametrize("name", NAMES)
def test_a37_rows_that_draft_much_beside_rows_that_draft_little(mtiny, texts, name):
    fast, rule = watched(drafting(mtiny, name, list(zip(PROMPTS, texts, strict=True))))
    eq(fast.generate(PROMPTS, PARAMS), texts)
    if name == "LOOKUP":
        lengths = {len(made.draft) for made in rule.rounds}
        assert {0, 4} <= lengths


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["LOOKUP", "NOISY", "SELF"])
def test_a37_rows_come_and_go(mtiny, texts, name, seed):
    """Requests are added and cancelled between steps, in a random order, with a random pacer for NOISY."""
    pairs, draw = list(zip(PROMPTS, texts, strict=True)), random.Random(seed)
    fast = with_parts(mtiny, Noisy(pairs, 0.3, VOCAB, seed), RandomPacer(6, seed), draft_tokens=6)
    fast = fast if name == "NOISY" else drafting(mtiny, name, pairs)
    order, engine, going = draw.sample(range(8), 8), fast._engine, {}
    with ledger(fast):
        while order or engine.busy:
            if order and draw.random() < 0.4:
                row = order.pop()
                (going[row],) = make_requests(fast.loaded, engine, PROMPTS[row], PARAMS[row])
                engine.add(going[row])
            if going and draw.random() < 0.03:
                engine.cancel(going[draw.choice(list(going))])
            engine.step()
    for row, request in going.items():
        got = tuple(request.committer.token_ids)
        assert got == texts[row][: len(got)]
        assert len(got) == len(texts[row]) or request.committer.finish_reason == "abort"


@pytest.mark.parametrize("name", NAMES)
def test_a38_rows_of_unequal_length_have_the_logits_they_have_alone(mtiny, name):
    """There is no padding; positions are each row's own. All 300 log-probabilities, within 1e-4."""
    prompts, params = [prompt(3), prompt(11)], replace(GREEDY, max_tokens=30, logprobs=VOCAB)
    alone = [mtiny.generate([ids], params)[0] for ids in prompts]
    fast = drafting(mtiny, name, [(ids, out.token_ids) for ids, out in zip(prompts, alone, strict=True)])
    for outs in (mtiny.generate(prompts, params), fast.generate(prompts, params), fast.generate(prompts[::-1], params)):
        by_length = {out.usage.prompt_tokens: out for out in outs}
        for right in alone:
            out = by_length[right.usage.prompt_tokens]
            assert out.token_ids == right.token_ids
            torch.testing.assert_close(table(out), table(right), rtol=0, atol=1e-4)


def table(out) -> torch.Tensor:
    """[tokens, vocabulary] log-probabilities."""
    return torch.tensor([[logprob for _, logprob in sorted(entry.top)] for entry in out.logprobs])


@pytest.mark.parametrize("drafter", DRAFTERS.names())
def test_a39_every_drafter_takes_a_batch(mtiny, texts, drafter, tmp_path):
    chooses = drafter == "auto"
    adapter = str(write_random_adapter(tmp_path / "adapter", mtiny)) if drafter == "block" else None
    fast = mtiny.variant(drafter=drafter, pacer=None if chooses else "fixed", budget_floor=8, adapter=adapter)
    outs = fast.generate(PROMPTS[:2], PARAMS[:2])
    eq(outs, texts[:2])
    assert chooses or (outs[0].speculation.drafted > 0) == (drafter != "none")


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("name", ["NOISY", "SELF"])
def test_a40_more_requests_than_rows(small, texts, name, count):
    """At most 4 rows of K + 1 = 5 tokens a step; all requests end, those in excess wait."""
    fast = drafting(small, name, list(zip(PROMPTS, texts, strict=True)), 4)
    steps = watched_steps(fast)
    which = [index % 8 for index in range(count)]
    with ledger(fast):
        outs = fast.generate([PROMPTS[row] for row in which], [PARAMS[row] for row in which])
    eq(outs, [texts[row] for row in which])
    assert max(len(step) for step in steps) == min(4, count)
    assert max(row[2] for step in steps for row in step) == 5
    assert max(sum(row[2] for row in step) for step in steps) <= 20
