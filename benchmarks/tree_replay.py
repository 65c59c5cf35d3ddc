"""How many nodes a GPU's engine verifies: its own pacing, padding and resting, replayed on answers written before.

    python -m benchmarks.tree_replay ANSWERS [--device h200-8b] [--explain]

No forward and no GPU. Drafters, pacers, shapes of steps (`Covering`) and rests (`Asking`) are the engine's own, one row;
costs begin as the engine makes them, and the pacer is told what the engine would tell it: steps of the tokens they ran
with, timed by the device, captures left out. The clock also has what the device waits for the host. One engine answers
all questions after one another, first the greedy ones: what it learned of steps stays. Logits are known of the answer's
own tokens only, so drafters that recycle those of rejected nodes do better in truth.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.auto_replay import MOST, Replay
from benchmarks.retrieval_acceptance import Answer
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence as Pages
from glimpse.drafting import DRAFTERS
from glimpse.drafting.auto import AutoDrafter, makers
from glimpse.drafting.drafter import DraftContext
from glimpse.engine.device.asking import Asking
from glimpse.engine.device.covering import Covering, node_bucket
from glimpse.engine.device.tree_launch import WIDTHS
from glimpse.pacing import PACERS
from glimpse.pacing.costs import ON_GPU, StepCosts, StepLoad
from glimpse.pacing.pacer import Action, PaceContext

ARMS = {
    "none": ("none", "fixed", 0),
    "8 nodes": ("racer", "fixed", 8),
    "32 nodes": ("racer", "fixed", 32),
    "63 nodes": ("racer", "fixed", 63),
    "racer": ("racer", "marginal", 64),
    "racer+suffix": ("racer+suffix", "marginal", 64),
    "auto": ("auto", "auto", 64),
}
"""Drafter, pacer and the most nodes of each; those of `fixed` are told theirs."""


@dataclass(frozen=True, slots=True)
class Device:
    """Seconds of steps of one row, as the device times them, and what it waits for the host before one with drafts."""

    plain: float
    tree: float
    """Of a tree of no node."""
    token: float
    """More, of each query token that it runs with."""
    host: float
    weight_bytes: int
    kv_bytes: int

    def seconds(self, tokens: int) -> float:
        """Of a verification that runs with so many tokens."""
        return self.plain if tokens == 1 else self.tree + self.token * tokens


DEVICES = {
    # 207 tokens a second plain; 8, 32 and 63 nodes took 1.17, 1.22 and 1.25 of that with 5, 20 and 40 nodes a step, end
    # to end (h200-retrieval, T=0.7), of which the host's part is a guess.
    "h200-8b": Device(4.82e-3, 5.30e-3, 0.0105e-3, 0.30e-3, 16_060_000_000, 131_072),
    "h200-demo": Device(0.55e-3, 0.66e-3, 0.002e-3, 0.30e-3, 269_000_000, 23_040),
}


class Mark:
    """A moment of the replay's clock."""

    def __init__(self, at: float) -> None:
        self.at = at

    def since(self, earlier: Mark) -> float:
        """Seconds from an earlier one."""
        return self.at - earlier.at


@dataclass(slots=True)
class Count:
    """What came of some answers."""

    tokens: int = 0
    steps: int = 0
    nodes: int = 0
    rested: int = 0
    ran: int = 0
    """Query tokens that steps with drafts ran with."""
    captures: int = 0
    seconds: float = 0.0
    """Captures left out."""

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


class Engine:
    """One row of the device engine, with one drafter and pacer."""

    def __init__(self, arm: str, device: Device, seed: int = 1) -> None:
        name, paced_by, most = ARMS[arm]
        self._device, self._noise = device, random.Random(seed)
        self.costs = StepCosts(device.weight_bytes, device.kv_bytes, shares=ON_GPU)
        offered = DRAFTERS.get(name)
        asked = most if paced_by == "fixed" and most else None
        context = PaceContext(self.costs, asked, not offered.needs_forward, RecallBudget().positions,
                              can_draft=offered.drafts, trees=True, padded=ran_with)  # fmt: skip
        self.pacer: Any = PACERS.get(paced_by).build(context)
        drafting = DraftContext(PagePool(CacheShape(1, 1, 2), 4, 16, torch.float32), RecallBudget(), nodes=max(1, min(self.pacer.most, MOST)))
        self.drafter: Any = AutoDrafter(makers(), None, MOST) if name == "auto" else offered.build(drafting)
        if name == "auto":
            self.drafter.on_graphs, self.drafter.mixes = True, False
        self.pacer.attach(self.drafter)
        self._asking = Asking() if not self.pacer.foretells and name != "none" else None
        self._shapes, self._captured = Covering(), set[tuple[int, int, int]]()
        self._now, self._number = 0.0, 0

    def answer(self, answer: Answer) -> Count:
        """Writes one answer."""
        rows = Rows(1, len(answer.ids) + MOST + 2, MOST)
        rows.open(0, answer.ids[: answer.prompt + 1], Pages(PagePool(CacheShape(1, 1, 2), 4, 16, torch.float32)),
                  len(answer.ids))  # fmt: skip
        rows.prompt_len[0] = answer.prompt
        view, count, begun = RowView(rows, (0,)), Count(), self._now
        self._number += 1
        self.drafter.admit(view)
        self.pacer.admit(view)
        if self._asking:
            self._asking.interrupted()
        while int(rows.committed_len[0]) < len(answer.ids):
            self._step(view, answer, count)
        self.drafter.retire(view)
        self.pacer.retire(view)
        count.seconds = self._now - begun
        return count

    def _step(self, view: RowView, answer: Answer, count: Count) -> None:
        rows, length = view.rows, int(view.rows.committed_len[0])
        asked = self._asking is None or self._asking.asks((self._number,))
        rows.draft_len[0] = 0
        if asked:
            decided = self.pacer.decide(view, [min(MOST, len(answer.ids) - length - 1)])
            if decided.actions[0] is Action.DRAFT:
                draft = self.drafter.plan(view, decided.room)
                if len(draft.tokens):
                    rows.put_draft(0, draft.tokens, draft.parents, draft.confidence, draft.source)
                rows.draft_len[0] = min(self.pacer.trim(view)[0], MOST - 1)
        drafted = int(rows.draft_len[0])
        tokens, fresh = self._shape(drafted) if asked else (1, False)
        path = Replay._path(rows, answer.ids[length:], drafted)
        outcome = Replay._outcome(self, answer, length, drafted, path)  # type: ignore[arg-type]
        timed = self._device.seconds(tokens) * self._noise.lognormvariate(0, 0.01)
        # Where nothing waits, a plain step is launched while the one before runs.
        self._now += timed + (self._device.host if asked and self._asking is not None or drafted else 0.0)
        loaded = tokens if drafted else 1
        load = StepLoad(full_tokens=loaded, full_kv=length + drafted, pairs=(1 + drafted) * length)
        if not fresh:
            self.costs.observe(load, timed)
        self.pacer.observe(view, [outcome])
        rows.commit(0, outcome.tokens, length + len(path))
        self.drafter.absorb(view, [outcome])
        if self._asking:
            self._asking.learn(_launched(self._now, fresh, asked, len(outcome.tokens)))
        count.tokens, count.steps, count.nodes = (
            count.tokens + len(outcome.tokens), count.steps + 1, count.nodes + drafted)  # fmt: skip
        count.captures += fresh
        count.rested, count.ran = count.rested + (not asked), count.ran + (tokens if asked else 0)

    def _shape(self, drafted: int) -> tuple[int, bool]:
        """As `TreeLauncher`, of one row."""
        queries = next(width for width in WIDTHS if width > drafted)
        tokens = ran_with(drafted + 1)
        ample = min(1 << (tokens - 1).bit_length(), MOST)
        key = self._shapes.choose((1, tokens, queries), (1, ample, queries))
        fresh = key not in self._captured
        self._captured.add(key)
        return key[1], fresh


def ran_with(tokens: int) -> int:
    """Of one row's verification, as the engine says it."""
    return min(node_bucket(tokens), MOST)


def _launched(now: float, fresh: bool, asked: bool, tokens: int) -> Any:
    return SimpleNamespace(
        drafts=False, timed=[SimpleNamespace(end=Mark(now))], ran=SimpleNamespace(fresh=fresh), seats=(0,), asked=asked,
        letter=SimpleNamespace(counts=np.array([tokens])),
    )  # fmt: skip


def answers_of(folder: Path, mode: str, tokens: int) -> list[Answer]:
    """Sets in turn."""
    found = [Answer.read(path) for path in folder.glob(f"*-{mode}.npz")]
    found = [replace(answer, ids=answer.ids[: answer.prompt + tokens]) for answer in found]
    return sorted(found, key=lambda answer: (answer.name.split("-")[1], answer.set))


def run(arm: str, device: Device, modes: Sequence[list[Answer]], warm: int) -> list[Count]:
    """Of each mode, all answers together; the first `warm` of a mode are answered once before, and not counted."""
    engine, found = Engine(arm, device), []
    for answers in modes:
        for answer in answers[:warm]:
            engine.answer(answer)
        total = Count()
        for answer in answers:
            own = engine.answer(answer)
            total = Count(*(getattr(total, name) + getattr(own, name) for name in Count.__slots__))
        found.append(total)
    return found


def main() -> None:
    """A line an arm and mode."""
    parser = argparse.ArgumentParser(prog="benchmarks.tree_replay", description=__doc__.partition("\n")[0])
    parser.add_argument("answers", type=Path)
    parser.add_argument("--device", default="h200-8b", choices=DEVICES)
    parser.add_argument("--arms", default=";".join(ARMS), help="separated by ;")
    parser.add_argument("--tokens", type=int, default=96, help="of each answer")
    parser.add_argument("--every", type=int, default=1, help="only every so many answers")
    parser.add_argument("--warm", type=int, default=4)
    options = parser.parse_args()
    names = ("greedy", "sampled")
    modes = [answers_of(options.answers, name, options.tokens)[:: options.every] for name in names]
    for arm in options.arms.split(";"):
        for name, count in zip(names, run(arm, DEVICES[options.device], modes, options.warm), strict=True):
            plain = DEVICES[options.device].plain * count.rate
            print(f"{options.device} {name:8} {arm:13} times plain {plain:.2f}, tokens a step "
                  f"{count.tokens / count.steps:.2f}, nodes {count.nodes / count.steps:.1f}, rested "
                  f"{count.rested / count.steps:.2f}, ran with {count.ran / max(1, count.steps - count.rested):.1f}, captures {count.captures}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
