"""Hostile input for as long as asked: every target of `tests/hostile` in turn, seed after seed.

    python -m benchmarks.fuzz --seconds 600 [--seed 0] [--only gguf-head ...]

Prints what came of each target, and every fault with the seed that shows it again; exits with 1 if there was one. What
kills the process outright is the attempt named in the last line written to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import sys
import time
import warnings
from collections import defaultdict

import torch
from tests.hostile.attempts import Tally, little_memory
from tests.hostile.targets import TARGETS, try_target


def fuzz(names: list[str], seconds: float, seed: int) -> dict[str, Tally]:
    """Tries the targets in turn until the time is over; returns what came of each."""
    tallies, end = defaultdict(Tally), time.monotonic() + seconds
    while time.monotonic() < end:
        for name in names:
            print(f"\r{name} {seed}    ", end="", file=sys.stderr, flush=True)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                try_target(tallies[name], name, seed)
        seed += 1
    print(file=sys.stderr)
    return tallies


def report(tallies: dict[str, Tally]) -> int:
    """Prints the tallies; returns how many faults there were."""
    for name, tally in tallies.items():
        counts = ", ".join(f"{tally.outcomes[outcome]:,} {outcome}" for outcome in ("worked", "refused", "fault"))
        print(f"{name}: {counts}")
        for fault in tally.faults[:10]:
            print(f"  {fault}")
    return sum(len(tally.faults) for tally in tallies.values())


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", nargs="+", choices=TARGETS, default=list(TARGETS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with little_memory():
        return 1 if report(fuzz(options.only, options.seconds, options.seed)) else 0


if __name__ == "__main__":
    sys.exit(main())
