"""Measurements of a run under way, so that an interrupted one goes on where it stopped."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from glimpse.bench.results import write_whole
from glimpse.errors import GlimpseError

_CHECKSUM = "crc32"
"""The key of a line's checksum, which is of all other keys."""


class JournalError(GlimpseError):
    """What was measured cannot be kept: measuring more is of no use."""


class Journal:
    """Finished cells, one JSON object a line with its checksum, below a header that says what they belong to.

    A file with another header (other code, settings or machine) is started anew; from the first line on that is not as
    it was written (half of it, or changed since), cells are dropped. One run at a time (`folder.alone_in`).
    """

    def __init__(self, path: Path, header: Mapping[str, Any], *, fresh: bool = False) -> None:
        """Raises GlimpseError where the file cannot be written."""
        self._path = path
        self._header = json.dumps(header, sort_keys=True)
        self.cells: dict[str, dict[str, Any]] = {}
        lines = [] if fresh else self._lines()
        for line in [line for line in lines[1:] if lines[0] == self._header]:
            try:
                entry = json.loads(line)
                if entry.pop(_CHECKSUM) != _checksum(entry):
                    break
                self.cells[entry["cell"]] = entry
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                break
        write_whole(path, "\n".join([self._header, *map(_line, self.cells.values())]) + "\n")

    def add(self, cell: str, run: Mapping[str, Any]) -> dict[str, Any]:
        """Records a finished cell; returns it as it will be read back. Raises JournalError where it cannot be kept."""
        entry = json.loads(json.dumps({"cell": cell, **run}, allow_nan=False))
        try:
            _append(self._path, _line(entry) + "\n")
        except OSError as error:
            raise JournalError(f"cannot write {self._path}: {error.strerror or error}") from error
        self.cells[cell] = entry
        return self.cells[cell]

    def close(self) -> None:
        """The run is over and its result written, or nothing was measured: there is nothing to go on with."""
        self._path.unlink(missing_ok=True)

    def _lines(self) -> list[str]:
        try:
            return self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return []


def _line(entry: Mapping[str, Any]) -> str:
    return json.dumps({**entry, _CHECKSUM: _checksum(entry)})


def _checksum(entry: object) -> int:
    return zlib.crc32(json.dumps(entry).encode())


def _append(path: Path, line: str) -> None:
    """All of the line or nothing: behind half of one, later lines would be lost."""
    size = path.stat().st_size if path.exists() else 0
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
    except OSError:
        with suppress(OSError):
            os.truncate(path, size)
        raise
