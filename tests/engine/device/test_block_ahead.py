"""Priced blocks a step ahead of the host: plain decoding's text, cuts as the host's, plain steps where drafts cost."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from engine.device.blocks import following, knowing, told, unlike
from engine.device.engines import greedy, ids_of, on_device, prompts_of
from engine.device.test_device_blocks import SIZE, adapter, few_processors, jobs, llm, options
from glimpse.cache.rows import RowView
from glimpse.drafting.block.drafter import FLOOR
from glimpse.engine.device.asking import LOOK
from glimpse.engine.device.block_ahead import AheadBlocks
from glimpse.engine.device.block_launch import BlockMove
from glimpse.engine.device.settings import Learn
from glimpse.pacing.block_rule import CutRule
from glimpse.pacing.block_ways import BlockWay, BlockWays
from glimpse.pacing.libra import ALPHA
from glimpse.pacing.marginal import MarginalPacer

__all__ = ["adapter", "few_processors", "llm"]
pytestmark = pytest.mark.usefixtures("no_page_lost")
HALF, SEARCH = CutRule(0.5, np.full((4, 4), 1.25)), CutRule(0.0, np.full((4, 4), 1.25), 2.0)
RULES = {"marginal": HALF, "libraspec": SEARCH}


class Heard:
    """What the pace is told of blocks, and how long the drafts were that were verified, by text."""

    def __init__(self, monkeypatch, rule):
        self.blocks, self.kept, self.drafted = {}, {}, {}
        hear, observe = AheadBlocks.heard, MarginalPacer.observe

        def hearing(pace, view, tokens, chances):
            for slot, own, sure in zip(view.slots, tokens, chances, strict=True):
                length = int(view.rows.committed_len[slot])
                room = int(view.rows.limit[slot]) - length - 1
                text = tuple(view.rows.tokens[slot, :length].tolist())
                self.blocks[text] = own.clone(), sure.clone()
                offered = sure.double().numpy()
                offered = offered[: min(int((offered.cumprod() >= FLOOR).sum()), max(room, 0))]
                self.kept[text] = rule.length(offered)
            hear(pace, view, tokens, chances)

        def observing(pacer, rows, outcomes):
            for outcome in outcomes:
                length = int(rows.rows.committed_len[outcome.slot])
                self.drafted[tuple(rows.rows.tokens[outcome.slot, :length].tolist())] = outcome.drafted
            observe(pacer, rows, outcomes)

        monkeypatch.setattr(AheadBlocks, "heard", hearing)
        monkeypatch.setattr(MarginalPacer, "observe", observing)


@pytest.mark.parametrize(
    ("pacer", "mode"), [("marginal", "parallel"), ("marginal", "sequential"), ("libraspec", "parallel")]
)
def test_blocks_and_cuts_are_the_hosts(llm, adapter, pacer, mode, monkeypatch):
    """Each block is the eager engine's behind the same text, and each draft as long as the rule says."""
    monkeypatch.setattr(CutRule, "of", lambda *_: RULES[pacer])
    prompts, params = jobs(llm)
    plain = ids_of(llm.generate(prompts, params))
    texts = [prompt + text for prompt, text in zip(prompts, plain, strict=True)]
    knowing(llm, following(texts), monkeypatch)
    eager = llm.variant(**options(adapter))
    right = told(eager)
    eager.generate(prompts, params)
    heard = Heard(monkeypatch, RULES[pacer])
    device = on_device(llm, drafter="block", adapter=adapter, pacer=pacer, block_mode=mode)
    found = device.generate(prompts, params)
    assert ids_of(found) == plain
    assert device._engine._host.own
    assert sum(output.speculation.accepted for output in found) > 2
    both = heard.blocks.keys() & right.keys()
    assert len(both) > 2, (heard.blocks.keys(), right.keys())
    assert not unlike({text: heard.blocks[text] for text in both}, {text: right[text] for text in both})
    judged = {text: heard.kept.get(text, 0) for text in heard.drafted}
    assert heard.drafted == judged
    assert {0, 1} <= set(judged.values()), "some are cut, some are not"


@pytest.mark.parametrize("taken", [BlockWay(SIZE, 1), BlockWay(1, 2), BlockWay(SIZE, 0)])
def test_every_way_writes_plain_decodings_text(llm, adapter, taken, monkeypatch):
    """And what its steps took is observed, those with masks apart."""
    monkeypatch.setattr(BlockWays, "choose", lambda *_: taken)
    monkeypatch.setattr(BlockWays, "plain_rate", lambda *_: 0.0)
    prompts, params = (own[1:2] for own in jobs(llm))
    device = on_device(llm, drafter="block", adapter=adapter, pacer="marginal")
    assert ids_of(device.generate(prompts, params)) == ids_of(llm.generate(prompts, params))
    points = [load for load, _ in device._engine.parts.costs.points()]
    assert any(load[8] for load in points), "masks that rode are priced"
    assert any(load[8] == 0 and load[1] > 2 for load in points) is taken.sequential


def test_the_way_may_change_at_any_step(llm, adapter, monkeypatch):
    """From groups beside verifications to steps of their own, to plain steps, and back."""
    monkeypatch.setattr("glimpse.engine.device.block_ahead.RENEWED", 0)
    monkeypatch.setattr("glimpse.engine.device.block_ahead.SHUT", 0)
    ways = [BlockWay(SIZE, SIZE + 1), BlockWay(SIZE, 0), BlockWay(SIZE, 0), BlockWay(1, 1)]
    count = iter(range(1000))
    monkeypatch.setattr(BlockWays, "choose", lambda *_: ways[next(count) % len(ways)])
    monkeypatch.setattr(BlockWays, "plain_rate", lambda *_: (0.0, 0.0, 1e9)[next(count) % 3])
    prompts, params = jobs(llm)
    device = on_device(llm, drafter="block", adapter=adapter, pacer="marginal")
    assert ids_of(device.generate(prompts, params)) == ids_of(llm.generate(prompts, params))


class Dear:
    """Steps with masks take ten plain ones, as the device's clock has it."""

    def __init__(self, engine):
        self.moves, asking = [], engine._host.asking
        launch, learn = engine._steps.launch, asking.learn

        def launching(move, view):
            self.moves.append(isinstance(move, BlockMove))
            return launch(move, view)

        class At:
            now = 0.0

            def __init__(self, took):
                At.now += took
                self.at = At.now

            def since(self, earlier):
                return self.at - earlier.at

        def learning(launched):
            mark = At(10.0 if launched.asked else 1.0)
            learn(replace(launched, timed=(SimpleNamespace(end=mark),)))

        engine._steps.launch, asking.learn = launching, learning


def test_where_drafting_does_not_pay_steps_are_plain_and_a_step_ahead(llm, adapter, monkeypatch):
    monkeypatch.setattr(BlockWays, "plain_rate", lambda *_: 0.0)
    device = on_device(llm, drafter="block", adapter=adapter, pacer="marginal")
    dear = Dear(device._engine)
    device._engine._host.asking._size(1).left = 3
    (prompt,) = prompts_of(llm, 6)
    assert ids_of(device.generate([prompt], greedy(16))) == ids_of(llm.generate([prompt], greedy(16)))
    tries = [*[True] * 3, *[False] * LOOK, *[True] * 2]
    assert dear.moves[: len(tries)] == tries
    assert len(dear.moves) > len(tries) + 2
    assert not any(dear.moves[len(tries) :])
    assert device._engine._host.asking.resting


def test_prices_without_hope_are_not_tried(llm, adapter, monkeypatch):
    monkeypatch.setattr(BlockWays, "plain_rate", lambda *_: 1e9)
    device = on_device(llm, drafter="block", adapter=adapter, pacer="marginal")
    dear = Dear(device._engine)
    (prompt,) = prompts_of(llm, 6)
    device.generate([prompt], greedy(6))
    assert dear.moves
    assert not any(dear.moves)


def test_pacers_without_a_rule_are_asked_by_the_host(llm, adapter):
    device = on_device(llm, drafter="block", adapter=adapter, pacer="fixed", draft_tokens=SIZE)
    assert device._engine._host.drafts is not None
    for pacer in RULES:
        device = on_device(llm, drafter="block", adapter=adapter, pacer=pacer)
        assert device._engine._host.drafts is None
        assert device._engine._host.asking is device._engine._pace.asking


def test_libraspecs_rule_is_its_search(llm, adapter):
    """Whatever a token costs: its constant says that."""
    for pacer, floor, alpha in (("libraspec", 0.0, ALPHA), ("marginal", 0.3, 0.0)):
        parts = on_device(llm, drafter="block", adapter=adapter, pacer=pacer)._engine.parts
        parts.pacer.admit(RowView(parts.rows, (0,)))
        rule = parts.pacer.rule(0, 0.3)
        assert (rule.floor, rule.alpha) == (floor, alpha)


def test_the_widest_steps_of_both_ways_are_made_before_they_are_asked_for(llm, adapter):
    """Beside every verification, and in steps of their own: none of them is captured while somebody waits."""
    engine = on_device(llm, drafter="block", adapter=adapter, pacer="marginal")._engine
    engine.warm_up()
    graphs, blocks = engine._launcher.graphs, engine._launcher._blocks
    for rows in (1, 2):
        for queries, groups in ((SIZE + 1, SIZE + 1), (SIZE + 1, 1), (1, 1)):
            assert graphs.holds("block", blocks._shape(rows, queries, groups))
        for queries in (1, SIZE + 1):
            assert graphs.holds(("verify", Learn.NOTHING), (rows * queries, rows, queries))
    assert engine._core.rows.most == SIZE, "no longer than the head's blocks"
