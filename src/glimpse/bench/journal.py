"""Measurements of a run under way, so that an interrupted one goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glimpse.errors import GlimpseError


class Journal:
    """Finished cells, one JSON object a line, below a header that says what they belong to.

    A file with another header (other code, settings or machine) is started anew; a half-written last line is dropped.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], *, fresh: bool = False) -> None:
        self._path = path
        self._header = json.dumps(header, sort_keys=True)
        self.cells: dict[str, dict[str, Any]] = {}
        lines = [] if fresh else self._lines()
        kept = [line for line in lines[1:] if lines[0] == self._header]
        for line in kept:
            try:
                entry = json.loads(line)
                self.cells[entry["cell"]] = entry
            except (ValueError, TypeError, KeyError, RecursionError):
                break
        self._rewrite()

    def add(self, cell: str, run: Mapping[str, Any]) -> dict[str, Any]:
        """Records a finished cell; returns it as it will be read back."""
        line = json.dumps({"cell": cell, **run}, allow_nan=False)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self.cells[cell] = json.loads(line)
        return self.cells[cell]

    def close(self) -> None:
        """The run is over and its result written: nothing to go on with."""
        self._path.unlink(missing_ok=True)

    def _lines(self) -> list[str]:
        try:
            return self._path.read_text(encoding="utf-8").splitlines()
        except OSError:
            return []

    def _rewrite(self) -> None:
        lines = [self._header, *(json.dumps(entry) for entry in self.cells.values())]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        except OSError as error:
            raise GlimpseError(f"cannot write {self._path}: {error.strerror or error}") from error
