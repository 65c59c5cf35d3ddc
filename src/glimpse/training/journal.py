"""The points of a training, a line each, for people and scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from glimpse.errors import ArgumentError


class PointLog:
    """`OUT.log`. A point is written before the state that goes on from it, so that none is missing; what a killed run
    wrote of later ones, or half of, is dropped when the next one begins, and comes again."""

    def __init__(self, path: Path, steps: int) -> None:
        """For a training that has come to so many steps. Raises ArgumentError where it cannot be read or written."""
        self._path = path
        try:
            found = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            kept = "".join(line for line in found.splitlines(keepends=True) if _whole(line, steps))
            if kept != found:
                part = path.with_name(f".{path.name}.part")
                part.write_text(kept, encoding="utf-8")
                part.replace(path)
        except OSError as error:
            raise ArgumentError(f"{path}: cannot be written: {error.strerror or error}") from error

    def add(self, point: Mapping[str, Any]) -> None:
        """One more line. Raises ArgumentError where it cannot be written."""
        try:
            with self._path.open("a", encoding="utf-8") as log:
                log.write(json.dumps(point) + "\n")
        except OSError as error:
            raise ArgumentError(f"{self._path}: cannot be written: {error.strerror or error}") from error


def _whole(line: str, steps: int) -> bool:
    """Whether it is a point up to that step, to its end."""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        return line.endswith("\n") and int(json.loads(line)["step"]) <= steps
    return False
