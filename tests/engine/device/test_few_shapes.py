"""After a warm-up, steps of rows that come and go compile next to nothing, and captures have a share of the time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from engine.device.launches import names, watched
from engine.device.standins import CAPTURE, Counted
from glimpse.attention.triton.mixed import Want
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.core import Core
from glimpse.engine.device.launch import Launcher
from glimpse.engine.device.ready import capture_all
from glimpse.engine.device.settings import Learn, RoundSettings
from glimpse.engine.device.state import DeviceRecall, DeviceRows
from glimpse.engine.device.tails import TailReader
from glimpse.engine.device.tree_launch import TreeMove
from glimpse.engine.device.tree_state import TreeState
from tiny import tiny_decoder

WIDTH = 1024
STEPS = 1500
SHAPES = {
    "narrow": {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 128},
    "wide": {"hidden_size": 1088, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 128},
}
"""Nothing is computed but the products that are torch's own."""


def make_core(shape: str, rows: int, most: int, *, trees: bool = False, drafts: bool = False) -> Core:
    spec = SHAPES[shape]
    decoder = tiny_decoder(num_hidden_layers=1, head_dim=64, **spec)
    pool = PagePool(CacheShape(1, spec["num_key_value_heads"], 64), 4, 16, decoder.dtype)
    state = DeviceRows.empty(rows, WIDTH, most, WIDTH // 16, "cpu")
    heads = spec["num_attention_heads"], spec["num_key_value_heads"]
    recall = DeviceRecall.empty(1, rows, *heads, WIDTH, 256, "cpu") if drafts else None
    core = Core(decoder, pool, state, recall, RoundSettings(RecallBudget()), 97)
    core.trees = TreeState(state, successors=True) if trees else None
    return core


def arrivals(most: int, rng: random.Random) -> Iterator[int]:
    """Rows at work, step after step: they come and go one by one, and all at once."""
    rows = 1
    for _ in range(STEPS):
        rows = rng.randint(1, most) if rng.random() < 0.02 else min(most, max(1, rows + rng.choice((-2, -1, 0, 1, 2))))
        yield rows


def trees_of(launcher: Launcher, rows: int, rng: random.Random) -> None:
    """A step of nodes that pay, of more or fewer, or a plain one that nobody was asked for."""
    if rng.random() < 0.2:
        launcher.verify(rows, 0, Learn.NOTHING)
        return
    most = rng.choice((0, 3, 8, 16, 63 if rows <= 8 else 20))
    drafted = tuple(rng.randint(0, most) for _ in range(rows))
    launcher.trees(TreeMove(drafted, (1,) * rows, np.zeros(1, np.int64)))


def whims_of(launcher: Launcher, rows: int, rng: random.Random) -> None:
    """A fleet's step: bursts of all rows, verifications of all, or each does as it likes."""
    kind, most = rng.random(), launcher._core.rows.most
    if kind < 0.2:
        launcher.verify(rows, 0, rng.choice((Learn.NOTHING, Learn.ANEW)))
    elif kind < 0.4:
        launcher.draft(rows, rng.randint(1, most))
        launcher.verify(rows, rng.randint(1, most), Learn.ADD)
    else:
        wants = [rng.choice((Want.DRAFT, Want.PLAIN, Want.ADD, Want.ANEW)) for _ in range(rows)]
        launcher.mixed(wants, [rng.randint(0, most) for _ in range(rows)])


def chains_of(launcher: Launcher, rows: int, rng: random.Random) -> None:
    """Drafts of the host, of any length."""
    launcher.verify(rows, rng.choice((0, 0, rng.randint(1, launcher._core.rows.most))), Learn.NOTHING)


TRACES = {
    "trees": (trees_of, {"rows": 64, "most": 63, "trees": True}, 0, False),
    "fleet": (whims_of, {"rows": 32, "most": 16, "drafts": True}, 16, True),
    "lookup": (chains_of, {"rows": 64, "most": 16}, 16, False),
}
WARM = {"trees": 30, "fleet": 70, "lookup": 26}
"""Graphs that a warm-up may capture."""
COMPILED = {"trees": 40, "fleet": 58, "lookup": 35}
"""Kernels that it may compile."""


def warmed(core: Core, drafted: int, mixes: bool, patch: pytest.MonkeyPatch) -> tuple[Launcher, Counted]:
    launcher = Launcher(core, exact=False)
    launcher.graphs = graphs = Counted(core, patch)
    steps = [*launcher.ready(drafted, mixes=mixes), *TailReader(core, graphs).ready()]
    assert capture_all(iter(steps), graphs, nullcontext()) == len(steps)
    return launcher, graphs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("trace", TRACES)
@torch.inference_mode()
def test_after_a_warm_up_next_to_nothing_is_compiled_and_little_captured(trace, shape, monkeypatch):
    step, made, drafted, mixes = TRACES[trace]
    rng = random.Random(3)
    with watched() as ready:
        launcher, graphs = warmed(make_core(shape, **made), drafted, mixes, monkeypatch)
        before = set(ready)
        at_first = graphs.captures
        for rows in arrivals(made["rows"], rng):
            step(launcher, rows, rng)
        late = ready - before
    # What a rare shape of its own compiles is paid from the share of captures.
    assert len(late) <= 1, names(late)
    assert len(before) <= COMPILED[trace], names(before)
    assert at_first <= WARM[trace]
    took = (graphs.captures - at_first) * CAPTURE
    assert took <= graphs.CREDIT + graphs.SHARE * graphs.now + 2 * CAPTURE
    assert graphs.dropped == 0


@torch.inference_mode()
def test_without_a_warm_up_captures_are_bounded_all_the_same(monkeypatch):
    """What covers others is made when first needed, no more than a warm-up would make; the rest has a share."""
    core, rng = make_core("narrow", 64, 63, trees=True), random.Random(4)
    launcher = Launcher(core, exact=False)
    launcher.graphs = graphs = Counted(core, monkeypatch)
    with watched():
        for rows in arrivals(64, rng):
            trees_of(launcher, rows, rng)
    most = CAPTURE * WARM["trees"] + graphs.CREDIT + graphs.SHARE * graphs.now
    assert 0 < graphs.captures * CAPTURE <= most


@torch.inference_mode()
def test_a_steady_batch_gets_graphs_of_its_own(monkeypatch):
    core = make_core("narrow", 64, 16)
    with watched():
        launcher, graphs = warmed(core, 16, False, monkeypatch)
        found = [launcher.verify(20, 6, Learn.NOTHING) for _ in range(80)]
    assert [queries for _, queries in found[:8]] == [9] * 8
    assert [queries for _, queries in found[-3:]] == [7] * 3
    assert [ran.fresh for ran, _ in found].count(True) == 1
    assert graphs.holds(("verify", Learn.NOTHING), (224, 32, 7))


def test_steps_in_much_larger_shapes_tell_nothing(monkeypatch):
    core = make_core("narrow", 64, 16)
    with torch.inference_mode(), watched():
        launcher, _ = warmed(core, 16, False, monkeypatch)
        assert not launcher.verify(5, 0, Learn.NOTHING)[0].telling
        assert launcher.verify(15, 0, Learn.NOTHING)[0].telling


def test_a_warm_up_leaves_rows_and_their_pages_alone(monkeypatch):
    core = make_core("narrow", 4, 8, trees=True)
    core.rows.active.fill_(1)
    core.rows.length.fill_(7)
    seen = []
    monkeypatch.setattr(Counted, "_capture", lambda graphs, function: seen.append(int(core.rows.active.sum())))
    with torch.inference_mode(), watched():
        warmed(core, 0, False, monkeypatch)
    assert len(seen) > 8
    assert not any(seen)
    assert core.rows.active.tolist() == [1] * 4
