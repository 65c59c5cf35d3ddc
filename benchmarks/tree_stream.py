"""Many texts, one after the other, through one engine of a GPU, replayed: what it learns from text to text.

    python -m benchmarks.tree_stream ANSWERS [--device h200-demo] [--arms "63 nodes;auto"]

`tree_replay`, but all answers of a mode go through one engine, as through a server, in three orders; the first few of
each, from which it learns, do not count. By set, and for how many single answers drafting was a loss.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.retrieval_acceptance import Answer
from benchmarks.tree_engine import DEVICES, Count, Device, Engine
from benchmarks.tree_replay import MODES, groups, parsed

LEARNED = 6
"""Answers that an engine learns from."""


@dataclass(slots=True)
class Stream:
    """What engines made of many answers."""

    sets: defaultdict[str, Count]
    speeds: list[float]
    """Of each answer, over plain decoding."""

    def line(self, plain: float) -> str:
        """Of the table; `plain`: seconds of a plain step."""
        whole, each = sum(self.sets.values(), Count()), np.array(self.speeds)
        sets = ", ".join(f"{name} {plain * own.plain / own.seconds:.3f}" for name, own in sorted(self.sets.items()))
        said = f"answers: least {each.min():.2f}, below 0.98 {(each < 0.98).mean():.2f}"
        together = f"times plain {plain * whole.plain / whole.seconds:.3f} ({sets})"
        return f"{together}; {said}, without gains {np.minimum(each, 1).mean():.3f}"


def stream(arm: str, device: Device, answers: Sequence[Answer], orders: int = 3) -> Stream:
    """All answers through one engine for each of some orders."""
    found = Stream(defaultdict(Count), [])
    for seed in range(orders):
        engine, own = Engine(arm, device), list(answers)
        random.Random(seed).shuffle(own)
        own *= 1 if device.rows == 1 else device.rows // 2
        for begin in range(0, len(own), device.rows):
            batch = own[begin : begin + device.rows]
            count = engine.together(batch)
            if begin >= LEARNED and len(batch) == device.rows:
                found.sets[batch[0].set if device.rows == 1 else "batches"] += count
                found.speeds.append(device.plain * count.plain / count.seconds)
    return found


def main() -> None:
    """A line an arm and mode."""
    options = parsed("tree_stream", str(__doc__), "h200-demo")
    device, made = DEVICES[options.device], groups(options.answers, options.tokens)
    for arm in options.arms.split(";"):
        for place, mode in enumerate(MODES):
            found = stream(arm, device, [answer for group in made for answer in group[place]])
            print(f"{options.device} {mode:8} {arm:13} {found.line(device.plain)}", flush=True)


if __name__ == "__main__":
    main()
