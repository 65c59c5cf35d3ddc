"""Tries something hostile: it may work, or be refused by one clear line. Anything else is a fault."""

from __future__ import annotations

import random
import resource
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from glimpse.errors import GlimpseError

LONGEST_LINE = 2_000
"""Characters of a message that may still be called one clear line."""
SECONDS = 10.0
"""More processor time than this is a hang; what is tried here takes hundredths of a second."""
PATIENCE = 12.0
"""How many times longer it may wait, for a busy machine or for nothing."""
SPARE_BYTES = 1 << 30
"""Address space that all attempts together may take beyond what is in use at their begin."""


class Hangs(BaseException):
    """It took too long."""


@dataclass(slots=True)
class Tally:
    """What came of many attempts."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, name: str, fault: str | None, refused: bool) -> None:
        """Counts one attempt."""
        self.outcomes["fault" if fault else "refused" if refused else "worked"] += 1
        if fault:
            self.faults.append(f"{name}: {fault}")


Target = Callable[[random.Random, Path], object]
"""One attempt: makes something hostile, in an empty folder if it needs one, and does with it what a user would."""


def try_out(tally: Tally, name: str, action: Callable[[], object]) -> None:
    """Runs `action` and notes what came of it."""
    try:
        with _within(SECONDS):
            action()
    except GlimpseError as error:
        tally.add(name, _unclear(str(error)), refused=True)
    except BaseException as error:  # a panic of a Rust library is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        tally.add(name, "".join(traceback.format_exception(error)[-4:]), refused=False)
    else:
        tally.add(name, None, refused=False)


def _unclear(message: str) -> str | None:
    """Why a message is not one clear line, if so."""
    if not message.strip():
        return "an empty message"
    if message.splitlines() != [message] or not message.isprintable():
        return f"a message of several lines, or with control characters: {message[:300]!r}"
    return f"a message of {len(message)} characters: {message[:300]!r}" if len(message) > LONGEST_LINE else None


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hangs(f"more than {seconds:g} s")

    clocks = (signal.SIGPROF, signal.ITIMER_PROF, seconds), (signal.SIGALRM, signal.ITIMER_REAL, PATIENCE * seconds)
    before = [signal.signal(number, ring) for number, _, _ in clocks]
    for _, clock, limit in clocks:
        signal.setitimer(clock, limit)
    try:
        yield
    finally:
        for (number, clock, _), handler in zip(clocks, before, strict=True):
            signal.setitimer(clock, 0)
            signal.signal(number, handler)


@contextmanager
def little_memory() -> Iterator[None]:
    """Refuses the process more than `SPARE_BYTES` beyond what it has mapped, so that a blow-up is an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + SPARE_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
