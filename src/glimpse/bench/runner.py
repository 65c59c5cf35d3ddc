"""Runs one suite: options, cells that survive an interruption, the result file, the table of targets."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from glimpse.bench import environment
from glimpse.bench.folder import alone_in
from glimpse.bench.journal import Journal
from glimpse.bench.report import reasons, shown
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.bench.texts import Passage, default_folder, passages
from glimpse.errors import GlimpseError
from glimpse.llm import LLM


@dataclass(frozen=True, slots=True)
class Findings:
    """What a suite makes of its cells."""

    targets: Sequence[Target]
    tables: Sequence[Table] = ()
    floors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """One benchmark script."""

    name: str
    summary: str
    settings: Mapping[str, Any]
    quick: Mapping[str, Any]
    """What a smoke run sets instead; its result goes to a temporary folder."""
    body: Callable[[Bench], Findings]


class Bench:
    """A suite under way."""

    def __init__(self, suite: Suite, root: Path, options: argparse.Namespace) -> None:
        self.root, self.options = root, options
        self.settings = {**suite.settings, **(suite.quick if options.quick else {}), "model": options.model}
        self._suite = suite
        torch.set_num_threads(options.threads)
        self._commit, self._dirty = environment.commit(root)
        header = {"code": environment.code_digest(root), "settings": self.settings, "device": environment.device()}
        self._journal = Journal(
            options.out / f".{suite.name}.partial.jsonl", header, fresh=options.fresh or options.quick
        )
        if self._journal.cells:
            self.say(f"{len(self._journal.cells)} cells of an earlier run are kept")

    @cached_property
    def llm(self) -> LLM:
        """The model, plain; `variant` gives the arms."""
        self.say(f"loading {self.options.model}")
        return LLM(
            self.options.model,
            drafter="none",
            pacer="fixed",
            dtype="float32",
            device="cpu",
            threads=self.options.threads,
        )

    def cell(self, name: str, measure: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """What `measure` returns, measured now or in an interrupted run of the same code and settings."""
        if name in self._journal.cells:
            return self._journal.cells[name]
        started = time.perf_counter()
        done = self._journal.add(name, measure())
        self.say(f"{name} ({time.perf_counter() - started:.1f} s)")
        return done

    def known(self, names: Iterable[str]) -> bool:
        """Whether all these cells were measured already."""
        return all(name in self._journal.cells for name in names)

    def recorded(self, name: str) -> dict[str, Any]:
        """A cell that was measured already."""
        return self._journal.cells[name]

    def passages(self, tokens: int, count: int) -> list[Passage]:
        """Passages of the books folder. Raises NoText where there is none."""
        return passages(self.options.text, self.llm.tokenizer, tokens, count)

    def say(self, text: str) -> None:
        """One line of progress."""
        print(f"{self._suite.name}: {text}", file=sys.stderr, flush=True)

    def finish(self, findings: Findings) -> Path:
        """Writes the result, prints its tables, drops the journal."""
        why = reasons(self.root / "benchmarks" / "notes.toml").get(self._suite.name, {})
        result = Result(
            suite=self._suite.name,
            device=environment.device(),
            versions=environment.versions(),
            commit=self._commit,
            dirty=self._dirty,
            quick=self.options.quick,
            settings=self.settings,
            runs=list(self._journal.cells.values()),
            targets=[target.noted(why.get(target.what)) for target in findings.targets],
            floors=findings.floors,
            tables=findings.tables,
        )
        path = write_result(result, self.options.out)
        self._journal.close()
        print(f"{shown(result)}\n\n{path}", flush=True)
        return path

    def leave(self) -> None:
        """Drops a journal in which nothing is."""
        if not self._journal.cells:
            self._journal.close()


def main(suite: Suite, root: Path, arguments: Sequence[str] | None = None) -> int:
    """Runs a suite from the command line; the exit code. A target that falls short is a result, not an error."""
    options = _options(suite, root, arguments)
    try:
        with alone_in(options.out, suite.name):
            _run(suite, root, options)
    except KeyboardInterrupt:
        print(f"{suite.name}: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except GlimpseError as error:
        print(f"{suite.name}: {'left out: ' if error.exit_code == 0 else ''}{error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(suite: Suite, root: Path, options: argparse.Namespace) -> None:
    bench = Bench(suite, root, options)
    try:
        bench.finish(suite.body(bench))
    finally:
        bench.leave()


def _options(suite: Suite, root: Path, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"benchmarks.{suite.name}", description=suite.summary)
    add_options(parser, root)
    options = parser.parse_args(arguments)
    if options.out is None:
        scratch = Path(tempfile.gettempdir()) / "glimpse-quick"
        options.out = scratch if options.quick else root / "benchmarks" / "results"
    return options


def add_options(parser: argparse.ArgumentParser, root: Path) -> None:
    """The options that all suites have."""
    parser.add_argument("--quick", action="store_true", help="a smoke run in seconds; its values mean nothing")
    parser.add_argument("--text", type=Path, default=default_folder(root), metavar="FOLDER", help="books (*.txt)")
    parser.add_argument("--out", type=Path, default=None, metavar="FOLDER", help="where the result file goes")
    parser.add_argument("--threads", type=int, default=2, help="torch threads (default 2)")
    parser.add_argument("-m", "--model", default="demo", help="demo, a model folder or a .gguf file")
    parser.add_argument("--fresh", action="store_true", help="do not go on with an interrupted run")
