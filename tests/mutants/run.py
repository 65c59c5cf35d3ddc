"""Runs mutants: each is put in, and the test that should catch it is run. In a process of its own, always.

One pytest session; everything that a test set up is taken down again after it, so that no mutant sees another's traces.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60
"""Seconds of the processor after which a test is taken for hung: a bug may be a loop without an end."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant."""

    name: str
    caught: bool
    how: str
    """The last line of the failure, or why the verdict means nothing."""
    seconds: float


class Hung(BaseException):
    """A test that did not end."""


class Runner:
    """A pytest plugin that runs the chosen tests once as they are, unless `bare`, and once for each mutant."""

    def __init__(self, mutants: Sequence[Mutant], *, bare: bool) -> None:
        self._mutants, self._bare = mutants, bare
        self.verdicts: list[Verdict] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's own loop."""
        items = {item.nodeid.removeprefix("tests/"): item for item in session.items}
        tests = dict.fromkeys(own.caught_by for own in self._mutants)
        sound = {test: self._bare or not _failure(items[test])[0] for test in tests}
        for mutant in self._mutants:
            begun = time.perf_counter()
            if not sound[mutant.caught_by]:
                failed, how = False, f"{mutant.caught_by} fails without it too"
            else:
                failed, how = _failure(items[mutant.caught_by], mutant)
            self.verdicts.append(Verdict(mutant.name, failed, how, round(time.perf_counter() - begun, 2)))
        return True


def _failure(item: pytest.Item, mutant: Mutant | None = None) -> tuple[bool, str]:
    """(whether the test fails, how), with a mutant in place or none."""
    item._initrequest()  # type: ignore[attr-defined]
    with mutant.installed() if mutant else nullcontext():
        try:
            with _patience():
                reports = runtestprotocol(item, log=False, nextitem=None)
        except Hung:
            return True, f"did not end within {PATIENCE} s"
    failed = [report for report in reports if report.failed]
    if not failed and not any(report.passed and report.when == "call" for report in reports):
        raise pytest.UsageError(f"{item.nodeid} was skipped; a mutant needs a test that runs")
    return bool(failed), _last_line(failed[0]) if failed else "passed"


def _last_line(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr)).strip().splitlines()[0][:160]


@contextmanager
def _patience() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hung

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run(mutants: Sequence[Mutant], *, bare: bool = False) -> list[Verdict]:
    """The verdicts, in order. Raises RuntimeError where the tests could not be run at all.

    A mutant counts as caught only by a test that passes without it; `bare`: they are known to.
    """
    runner = Runner(mutants, bare=bare)
    tests = [f"tests/{test}" for test in dict.fromkeys(own.caught_by for own in mutants)]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(ROOT)]
    status = pytest.main([*options, *tests], plugins=[runner])
    if status or len(runner.verdicts) != len(mutants):
        raise RuntimeError(f"pytest ended with {status!r} after {len(runner.verdicts)} of {len(mutants)} mutants")
    return runner.verdicts


if __name__ == "__main__":
    from tests.mutants.catalogue import named

    names = sys.argv[2:]
    verdicts = run(named([name for name in names if name != "--bare"]), bare="--bare" in names)
    Path(sys.argv[1]).write_text(json.dumps([asdict(verdict) for verdict in verdicts]))
