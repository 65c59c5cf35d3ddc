"""`auto` with an adapter: blocks are among what it may choose, row by row, and the text stays plain decoding's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.adapters import write_random_adapter
from tests.drafting.block.toy_head import KnowingHead
from tests.engine.test_auto import Eager, Restless, nothing_left
from tests.engine.test_retrieval import jobs, run

from glimpse.cache.recall import RecallBudget
from glimpse.drafting.auto import BLOCK, PLAIN, AutoDrafter
from glimpse.drafting.block.drafter import BlockDrafter
from glimpse.drafting.drafter import DraftContext, Outcome, Target
from glimpse.engine.engine import Engine
from glimpse.engine.riding import BlockDraws
from glimpse.errors import ArgumentError, ModelError
from glimpse.pacing.auto import AutoPacer
from glimpse.pacing.auto_block import MOST, Blocks, riding_seconds, round_steps
from glimpse.pacing.auto_choice import Chooser
from glimpse.pacing.auto_shadow import Market
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.pacer import PaceContext
from glimpse.sampling import SamplingParams


@pytest.fixture(scope="module")
def adapter(tiny, tmp_path_factory):
    return str(write_random_adapter(tmp_path_factory.mktemp("adapter") / "random.safetensors", tiny, scale=0.05))


@pytest.fixture(scope="module")
def plain(tiny):
    return [tiny.generate([ids], params)[0] for ids, params in jobs()]


@pytest.fixture
def restless(monkeypatch):
    monkeypatch.setattr("glimpse.pacing.auto.Chooser", Restless)
    monkeypatch.setattr("glimpse.pacing.auto.EntropyPacer", Eager)
    monkeypatch.setattr("glimpse.pacing.auto.LOOK", 1)


@pytest.mark.parametrize("mode", [None, "parallel"])
@pytest.mark.parametrize("rule", ["coupled", "matched"])
def test_whoever_drafts_next_the_text_is_plain_decodings(tiny, plain, adapter, restless, rule, mode):
    llm = tiny.variant(drafter="auto", pacer=None, adapter=adapter, block_mode=mode, acceptance=rule)
    outputs = run(llm)
    greedy = [place for place, (_, params) in enumerate(jobs()) if params.temperature == 0 or rule == "coupled"]
    assert [outputs[place].token_ids for place in greedy] == [plain[place].token_ids for place in greedy]
    assert BLOCK in {choice.drafter for out in outputs for choice in out.speculation.choices}
    drafter = llm._engine.parts.drafter
    assert drafter.block.cost.seconds > 0, "heads were asked"
    assert not drafter.block._blocks
    nothing_left(llm)


def test_masks_ride_on_rows_that_draft_blocks_alone(tiny, adapter, restless, monkeypatch):
    llm, seen = tiny.variant(drafter="auto", pacer=None, adapter=adapter), []
    riders = llm._engine._planner._riders
    board = riders.board

    def noting(specs, learning):
        found = board(specs, learning)
        seen.extend((llm._engine.parts.drafter.chosen(spec.slot), spec.masks, spec.hidden) for spec in found)
        return found

    monkeypatch.setattr(riders, "board", noting)
    run(llm)
    assert any(masks is not None for _, masks, _ in seen)
    assert all(masks is None and not hidden for name, masks, hidden in seen if name != BLOCK)


def knowing(tiny):
    """A text by `auto` with nothing but blocks to choose, of a head that knows four tokens; and plain decoding's."""
    ids = list(range(40, 60))
    text = tiny.generate(ids, SamplingParams(max_tokens=90, temperature=0.0))[0].token_ids
    llm = tiny.variant(drafter="lookup", pacer="fixed", draft_tokens=8)
    parts = llm._engine.parts
    head = KnowingHead(parts.decoder, {tuple(ids): text}, right=4)
    drafter = AutoDrafter({}, None, 8, block=BlockDrafterOf(head, BlockDraws(parts.sampler, parts.acceptance)))
    pacer = AutoPacer(PaceContext(parts.costs, 8, True, parts.budget.positions))
    pacer.attach(drafter)
    llm._engine = Engine(replace(parts, drafter=drafter, pacer=pacer), llm.options)
    return llm.generate(ids, SamplingParams(max_tokens=90, temperature=0.0))[0], text


class BlockDrafterOf(BlockDrafter):
    """Any head's."""


def test_blocks_that_come_true_are_kept(tiny, monkeypatch):
    """Where a step takes what its tokens say, whatever else the machine does."""
    observe = StepCosts.observe

    def still(self, load, seconds):
        observe(self, load, 1e-3 + 1e-5 * (load.full_tokens + load.draft_tokens))

    monkeypatch.setattr(StepCosts, "observe", still)
    monkeypatch.setattr("glimpse.pacing.auto_choice.ENTER", 0.5)
    out, text = knowing(tiny)
    assert out.token_ids == text
    assert [choice.drafter for choice in out.speculation.choices][-1] == BLOCK
    assert out.speculation.accepted > 40


def test_blocks_that_do_not_are_left():
    """Nothing accepted of 4 drafts, and what rode is paid for: after some rounds plain decoding is better."""
    costs, market, blocks, chooser = StepCosts(10**9, 10**3), Market(1.0, 1.0, 0.01), Blocks(), Chooser(BLOCK)
    blocks.hope(costs, market, 4, 100)
    steps = round_steps(costs, market, Outcome(0, 4, 0, [7], riding=20), 4, 100)
    assert steps == pytest.approx(1.04 + riding_seconds(costs, 20, 4, 100))
    for position in range(1, 40):
        blocks.add(Outcome(0, 4, 0, [7], riding=20), 1.5)
        chooser.book(1, 1.5)
        if chooser.decide(position, {PLAIN: 1.0, BLOCK: blocks.score.speed}):
            break
    assert chooser.current == PLAIN
    assert position < 20


def test_guesses_follow_prices():
    market, costs = Market(1.0, 1.0, 0.01), StepCosts(10**9, 10**3)
    cheap, dear = Blocks(), Blocks()
    cheap.hope(costs, market, 4, 100)
    assert cheap.score.speed == MOST
    dear.hope(costs, Market(1.0, 1.0, 0.5), 4, 100)
    assert dear.score.speed == pytest.approx(1.0), "prices say 3 tokens in 3 steps"
    assert riding_seconds(costs, 0, 4, 100) == 0
    assert riding_seconds(costs, 8, 4, 100) > riding_seconds(costs, 4, 4, 100) > 0


def test_a_bad_adapter_is_refused_and_a_mode_needs_one(tiny, tmp_path):
    other = write_random_adapter(tmp_path / "a", tiny, fingerprint="feedbeef")
    with pytest.raises(ModelError, match=r"made for tiny \(feedbeef\)"):
        tiny.variant(drafter="auto", pacer=None, adapter=str(other))
    with pytest.raises(ArgumentError, match="block_mode 'parallel' means nothing without an adapter"):
        type(tiny)("nowhere", drafter="auto", block_mode="parallel")


def test_on_a_gpu_an_adapter_is_nothing_to_it(tiny, adapter):
    class Pool:
        class device:
            type = "cuda"

    checkpoint = tiny.loaded.checkpoint
    target = Target(checkpoint.decoder, checkpoint.fingerprint, lambda rows, logits: (logits, logits), adapter)
    with pytest.raises(ArgumentError, match="means nothing to drafter 'auto' on a GPU, where masks ride"):
        AutoDrafter.build(DraftContext(Pool(), RecallBudget(), target=target))
    assert not AutoDrafter.build(DraftContext(Pool(), RecallBudget())).wants_hidden
