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
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.retrieval_acceptance import Answer
from benchmarks.tree_engine import ARMS, DEVICES, Count, Device, Engine

MODES = ("greedy", "sampled")


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
