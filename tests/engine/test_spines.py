"""Self-drafted spines with branches, through the whole engine: plain decoding's text, whoever paces them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.doubles import RandomPacer
from tests.engine.test_trees import MORE, run, same
from tests.tiny import write_tiny_checkpoint

from glimpse.drafting.spine.drafter import SparseRacerDrafter
from glimpse.engine.engine import Engine
from glimpse.llm import LLM
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.pacer import PaceContext
from glimpse.pacing.spine import SpinePacer
from glimpse.sampling import SamplingParams

RECALL = {"budget": 0.2, "budget_floor": 24}


def jobs(lengths=range(30, 150, 5)):
    """Prompts of unlike lengths, greedy and sampled with every processor in turn, of unlike output lengths."""
    made = []
    for place, length in enumerate(lengths):
        ids = random.Random(length).choices(range(3, 300), k=length)
        options = list(MORE.values())[place % len(MORE)]
        made.append((ids, SamplingParams(max_tokens=max(options.get("min_tokens", 0), 8 + 5 * place % 17), **options)))
    return made


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Rows of its own: batches of 4 and 200 tokens of context."""
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("spines"))
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=4, max_context=200)


@pytest.fixture(scope="module")
def plain(small):
    return run(small, jobs())


def spoken(outputs):
    names = ("drafted", "accepted", "draft_steps", "rounds")
    return [sum(getattr(out.speculation, name) for out in outputs) for name in names]


@pytest.mark.parametrize("rule", ["coupled", "matched"])
@pytest.mark.parametrize(("pacer", "length"), [("fixed", 1), ("fixed", 5), ("marginal", None), ("fleet", 6)])
def test_the_text_is_plain_decodings(small, plain, pacer, length, rule):
    llm = small.variant(drafter="sparse+racer", pacer=pacer, acceptance=rule, draft_tokens=length, **RECALL)
    outputs = run(llm, jobs())
    same(outputs, plain)
    drafted, accepted, steps, _ = spoken(outputs)
    assert pacer != "fixed" or (drafted > 1.5 * steps and accepted > 0)
    assert (small._loaded.pool.free_pages, small._loaded.pool.promised) == (small._loaded.pool.pages, 0)
    assert not llm._engine.parts.drafter._states


def test_branches_are_accepted(small, plain):
    """More is accepted than of the same spines alone, and the text is the same."""
    alone = run(small.variant(drafter="sparse", pacer="fixed", draft_tokens=4, **RECALL), jobs())
    both = run(small.variant(drafter="sparse+racer", pacer="fixed", draft_tokens=4, **RECALL), jobs())
    same(both, plain)
    chain, tree = spoken(alone), spoken(both)
    assert (tree[1] / tree[3]) > 1.05 * (chain[1] / chain[3])


@pytest.mark.parametrize("seed", range(3))
def test_any_pacer_may_pace_the_spine(small, plain, seed):
    """One that stops at random, and drops nodes by prices of its own."""
    llm = small.variant(drafter="sparse+racer", pacer="fixed", draft_tokens=6, **RECALL)
    parts = llm._engine.parts
    dear = StepCosts(1, 1, start=[1e-3, 10.0**-seed * 1e-3, 1e-4, 0, 0, 0, 0, 0, 0])
    pacer = SpinePacer(RandomPacer(6, seed), PaceContext(dear, None, False, lambda length: 24, branches=True))
    llm._engine = Engine(replace(parts, pacer=pacer), llm.options)
    outputs = run(llm, jobs())
    same(outputs, plain)
    assert spoken(outputs)[1] > 0
    assert not pacer._states


def test_a_stop_inside_a_tree_ends_there(small):
    ids = random.Random(7).choices(range(3, 300), k=90)
    llm = small.variant(drafter="sparse+racer", pacer="fixed", draft_tokens=6, **RECALL)
    free = small.generate([ids], SamplingParams(max_tokens=40, temperature=0.0))[0].token_ids
    for place in (1, 2, 5, 9):
        params = SamplingParams(max_tokens=40, temperature=0.0, stop_token_ids=[free[place]])
        same(llm.generate([ids], params), small.generate([ids], params))


def test_a_preempted_spine_begins_anew(small, plain):
    """Pages for the next steps only, and fewer than all rows need: the youngest is put back in the middle."""
    llm = small.variant(drafter="sparse+racer", pacer="marginal", reserve="next", **RECALL)
    same(run(llm, jobs()), plain)


def test_a_row_without_room_gets_no_branches(small):
    """The last token before the context ends: nothing may be drafted."""
    ids = random.Random(3).choices(range(3, 300), k=198)
    llm = small.variant(drafter="sparse+racer", pacer="fixed", draft_tokens=4, **RECALL)
    params = SamplingParams(max_tokens=8, temperature=0.0)
    same(llm.generate([ids], params), small.generate([ids], params))


def test_its_nodes_follow_the_draft_length(small):
    drafter = small.variant(drafter="sparse+racer", pacer="fixed", draft_tokens=3)._engine.parts.drafter
    assert isinstance(drafter, SparseRacerDrafter)
    assert drafter.budget == 12
    assert small.variant(drafter="sparse+racer", pacer="fixed", draft_tokens=90)._engine.parts.drafter.budget == 90
