"""Runs the cells of one call: what is done is kept, what fails is named, and the result file is always whole."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from glimpse.bench import environment
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.runs import Say
from glimpse.bench.decode.shape import CellShape
from glimpse.bench.decode.tables import tables
from glimpse.bench.decode.targets import targets
from glimpse.bench.floors import Machine
from glimpse.bench.folder import alone_in
from glimpse.bench.journal import Journal, JournalError
from glimpse.bench.report import reasons
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.engine.memory import within_memory
from glimpse.errors import GlimpseError

Cells = Sequence[dict[str, Any]]


class Measures(Protocol):
    """Who measures cells."""

    @property
    def models(self) -> Models:
        """Where checkpoints are opened."""

    @property
    def machine(self) -> Machine:
        """What the device can do at best."""

    @property
    def settings(self) -> dict[str, Any]:
        """Whatever decides what is measured: with other settings nothing is kept of an interrupted run."""

    def cell(self, shape: Any, say: Say) -> dict[str, Any]:
        """Everything about one cell, as it goes into the result file."""


@dataclass
class Suite:
    """The cells of one command, in order of importance."""

    name: str
    """"steps" or "decode"."""
    measuring: Measures
    out: Path
    """Folder of the result file, and of the journal that an interrupted run goes on from."""
    seconds: float | None = None
    """No cell begins after this."""
    commit: str | None = None
    """What git would say, where there is no git."""
    fresh: bool = False
    debug: bool = False
    say: Say = print
    """Hears how far it is."""
    complain: Say = print
    """Hears of every cell that failed."""
    tables: Callable[[Cells], list[Table]] = tables
    targets: Callable[[Cells], list[Target]] = targets
    result: Result | None = None
    """What is in the result file so far; None where nothing could be measured yet."""
    _failed: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> list[str]:
        """Cells that could not be measured."""
        return list(self._failed)

    def run(self, cells: Sequence[CellShape]) -> None:
        """Measures the cells that an interrupted run has not; the first of them whatever time there is.

        A cell that fails is named, and the rest goes on. KeyboardInterrupt passes through; all finished cells are in
        the journal and in the result file by then. Raises GlimpseError where another run writes the same files,
        or where nothing can be written there.
        """
        with alone_in(self.out, self.name):
            journal, done = self._journal(), False
            try:
                left = self._all(cells, journal)
                done = not (left or self._failed)
            except KeyboardInterrupt:
                self._write(cells, journal)
                raise
            finally:
                if done or not journal.cells:
                    journal.close()
        if left:
            self.say(f"no time left for {', '.join(left)}; the same command goes on from here")

    def _all(self, cells: Sequence[CellShape], journal: Journal) -> list[str]:
        """Goes through the cells; the names of those that there was no time for."""
        begun, left, tried = time.perf_counter(), list[str](), False
        for shape in cells:
            if shape.key in journal.cells:
                self.say(f"{shape.name}: kept from an earlier run")
            elif tried and self.seconds is not None and time.perf_counter() - begun > self.seconds:
                left.append(shape.name)
                continue
            else:
                tried = True
                self._measure(shape, journal)
            self._write(cells, journal)
        return left

    def _measure(self, shape: CellShape, journal: Journal) -> None:
        begun = time.perf_counter()
        try:
            found = within_memory(
                lambda: self.measuring.cell(shape, lambda line: self._progress(shape, line, begun)),
                self.measuring.models.device,
                "a shorter context, fewer rows or a smaller model may fit",
            )
            journal.add(shape.key, found | {"machine": asdict(self.measuring.machine)})
            self.say(f"{shape.name} measured in {time.perf_counter() - begun:.0f} s")
        except JournalError:
            raise
        except Exception as error:
            if self.debug:
                traceback.print_exc()
            self._failed[shape.name] = _line(error)
            self.complain(f"{shape.name} failed: {self._failed[shape.name]}")
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _progress(self, shape: CellShape, line: str, begun: float) -> None:
        self.say(f"{shape.name}, {time.perf_counter() - begun:.0f} s: {line}")

    def _write(self, asked: Sequence[CellShape], journal: Journal) -> None:
        """The result file as it stands."""
        cells = [journal.cells[shape.key] for shape in asked if shape.key in journal.cells]
        if not cells:
            return
        root = environment.source_root()
        commit, dirty = environment.known_commit(root, self.commit)
        why = reasons(root / "benchmarks" / "notes.toml").get(self.name, {})
        self.result = Result(
            suite=self.name,
            device=self._device(),
            versions=environment.versions(),
            commit=commit,
            dirty=dirty,
            quick=False,
            settings=self.measuring.settings,
            runs=[*cells, *({"cell": name, "error": error} for name, error in self._failed.items())],
            targets=[target.noted(why.get(target.what)) for target in self.targets(cells)],
            floors=asdict(self.measuring.machine),
            tables=self.tables(cells),
        )
        write_result(self.result, self.out)

    def _journal(self) -> Journal:
        header = {"code": environment.package_digest(), "settings": self.measuring.settings, "device": self._device()}
        return Journal(self.out / f".{self.name}.partial.jsonl", header, fresh=self.fresh)

    def _device(self) -> Mapping[str, Any]:
        return environment.device_of(self.measuring.models.device)


def _line(error: Exception) -> str:
    said = next(iter(str(error).strip().splitlines()), "")
    return said if isinstance(error, GlimpseError) else f"{type(error).__name__}: {said}"
