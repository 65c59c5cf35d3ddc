"""How many nodes a GPU's engine verifies: its own pacing, padding and resting, replayed on answers written before.

    python -m benchmarks.tree_replay ANSWERS [--device h200-8b]

No forward and no GPU. Drafters, pacers, sizes of steps (`node_bucket`) and rests (`Asking`) are the engine's own, one
row; each size is captured when it is first wanted. Costs begin as the engine makes them, and the pacer is told what the
engine would tell it: steps of the tokens they ran with, timed by the device, captures left out; drafters are told the
successors of prompts, as on a GPU. The clock also has what the device waits for the host. As in `gpu_retrieval`, an
engine is asked four questions, one of each set, greedily and then sampled, each mode once before it counts: what it
learned of steps stays. There are as many engines as ANSWERS (written by `retrieval_answers`) has such groups. Logits
are known of the answer's own tokens only, so drafters that recycle those of rejected nodes do better in truth.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import defaultdict
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
from glimpse.drafting.auto_graphs import auto_on_graphs
from glimpse.drafting.drafter import DraftContext, Successors
from glimpse.engine.device.asking import Asking
from glimpse.engine.device.covering import node_bucket
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
MODES = ("greedy", "sampled")


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
    # End to end: plain 4.85 ms, a tree of 64 tokens about 6; of the demo model 0.55 ms, asked and without a draft 0.75,
    # 0.9 and 1.15 with trees of 8 and 64 tokens.
    "h200-8b": Device(4.85e-3, 5.13e-3, 0.0105e-3, 0.20e-3, 16_060_000_000, 131_072),
    "h200-demo": Device(0.55e-3, 0.665e-3, 0.0045e-3, 0.20e-3, 269_000_000, 23_040),
    # As h200-retrieval had it at T=0.7: 1.31, 1.46 and 1.5 ms a step with at most 8, 32 and 63 nodes, end to end.
    "h200-demo-slow": Device(0.55e-3, 0.665e-3, 0.0035e-3, 0.60e-3, 269_000_000, 23_040),
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

    def __add__(self, other: Count) -> Count:
        return Count(*(getattr(self, name) + getattr(other, name) for name in Count.__slots__))

    def __str__(self) -> str:
        steps = max(1, self.steps - self.rested)
        each = f"tokens a step {self.tokens / self.steps:.2f}, nodes {self.nodes / self.steps:.1f}"
        return (
            f"{each}, rested {self.rested / self.steps:.2f}, ran with {self.ran / steps:.1f}, captures {self.captures}"
        )

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
                              can_draft=offered.drafts, trees=True, on_gpu=True, padded=ran_with)  # fmt: skip
        self.pacer: Any = PACERS.get(paced_by).build(context)
        drafting = DraftContext(
            PagePool(CacheShape(1, 1, 2), 4, 16, torch.float32),
            RecallBudget(),
            nodes=max(1, min(self.pacer.most, MOST)),
        )
        self.drafter: Any = auto_on_graphs(drafting) if name == "auto" else offered.build(drafting)
        self.pacer.attach(self.drafter)
        self._asking = Asking() if not self.pacer.foretells and name != "none" else None
        self._captured = set[int]()
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
        if self.drafter.wants_successors:
            read = slice(0, answer.prompt)
            told = (
                torch.tensor(answer.ids[read]),
                *map(torch.from_numpy, (answer.successors[read], answer.chances[read])),
            )
            self.drafter.recycle(0, Successors(*told))
        if self._asking:
            self._asking.interrupted()
        while int(rows.committed_len[0]) < len(answer.ids):
            count += self._step(view, answer)
        self.drafter.retire(view)
        self.pacer.retire(view)
        count.seconds = self._now - begun
        return count

    def _step(self, view: RowView, answer: Answer) -> Count:
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
        tokens = ran_with(1 + drafted)
        fresh = tokens not in self._captured
        self._captured.add(tokens)
        path = Replay._path(rows, answer.ids[length:], drafted)
        outcome = Replay._outcome(self, answer, length, drafted, path)  # type: ignore[arg-type]
        timed = self._device.seconds(tokens) * self._noise.lognormvariate(0, 0.01)
        # Where nothing waits, a plain step is launched while the one before runs.
        self._now += timed + (self._device.host if (asked and self._asking is not None) or drafted else 0.0)
        loaded = tokens if drafted else 1
        load = StepLoad(full_tokens=loaded, full_kv=length + drafted, pairs=(1 + drafted) * length)
        if not fresh:
            self.costs.observe(load, timed)
        self.pacer.observe(view, [outcome])
        rows.commit(0, outcome.tokens, length + len(path))
        self.drafter.absorb(view, [outcome])
        if self._asking:
            self._asking.learn(_launched(self._now, fresh, asked, len(outcome.tokens), self._number))
        return Count(len(outcome.tokens), 1, drafted, not asked, tokens if asked else 0, fresh)


def ran_with(tokens: int) -> int:
    """Of one row's verification, as the engine says it."""
    return min(node_bucket(tokens), MOST)


def _launched(now: float, fresh: bool, asked: bool, tokens: int, number: int) -> Any:
    seat = SimpleNamespace(request=SimpleNamespace(arrival=number))
    return SimpleNamespace(
        drafts=False, timed=[SimpleNamespace(end=Mark(now))], ran=SimpleNamespace(fresh=fresh), seats=(seat,),
        asked=asked, unread=frozenset(),
        letter=SimpleNamespace(counts=np.array([tokens])),
    )  # fmt: skip


def groups(folder: Path, tokens: int) -> list[list[list[Answer]]]:
    """Of each group the greedy and the sampled answers, sets in turn, cut to so many tokens."""
    modes = []
    for mode in MODES:
        sets = defaultdict[str, list[Answer]](list)
        for path in sorted(folder.glob(f"*-{mode}.npz")):
            answer = Answer.read(path)
            sets[answer.set].append(replace(answer, ids=answer.ids[: answer.prompt + tokens]))
        modes.append([list(group) for group in zip(*(sets[name] for name in sorted(sets)), strict=False)])
    return [list(both) for both in zip(*modes, strict=False)]


def run(arm: str, device: Device, modes: Sequence[list[Answer]]) -> list[Count]:
    """What one engine did in each mode; each is answered once before."""
    engine, found = Engine(arm, device), []
    for answers in modes:
        for answer in answers:
            engine.answer(answer)
        found.append(sum(map(engine.answer, answers), Count()))
    return found


def parsed(name: str, what: str, device: str) -> argparse.Namespace:
    """The options of a replay called `name`, on `device` where nobody says; clocks count processor time from here on,
    as what a busy machine makes others wait for is nobody's cost."""
    parser = argparse.ArgumentParser(prog=f"benchmarks.{name}", description=what.partition("\n")[0])
    parser.add_argument("answers", type=Path)
    parser.add_argument("--device", default=device, choices=DEVICES)
    parser.add_argument("--arms", default=";".join(ARMS), help="separated by ;")
    parser.add_argument("--tokens", type=int, default=96, help="of each answer")
    time.perf_counter = time.thread_time
    return parser.parse_args()


def main() -> None:
    """A line an arm and mode."""
    options = parsed("tree_replay", str(__doc__), "h200-8b")
    device, made = DEVICES[options.device], groups(options.answers, options.tokens)
    for arm in options.arms.split(";"):
        runs = [run(arm, device, modes) for modes in made]
        for mode, own in zip(MODES, zip(*runs, strict=True), strict=True):
            count = sum(own, Count())
            speed = device.plain * count.rate
            print(f"{options.device} {mode:8} {arm:13} times plain {speed:.3f}, {count}", flush=True)


if __name__ == "__main__":
    main()
