"""Which cell is measured: a model, a context, a number of rows, draft lengths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glimpse.bench.grow import shape_named
from glimpse.errors import ArgumentError

FORM = "[MODEL[@SHAPE]:]CONTEXTxROWS[:DRAFT+DRAFT]"
_CELL = re.compile(r"(?:(?P<model>.+?):)?(?P<context>\d+)x(?P<rows>\d+)(?::(?P<drafts>\d+(?:\+\d+)*))?")
MOST_ROWS = 4096
"""More than any device keeps in step; their prompts alone would take minutes."""
LEAST_CONTEXT = 64
"""A prompt shorter than this leaves a draft nothing to choose from."""


@dataclass(frozen=True, slots=True)
class CellShape:
    """One cell of the grid. Raises ArgumentError for a size out of range or an unknown twin."""

    model: str
    """demo, a folder, a GGUF file, or one of them @ the shape of a grown twin."""
    context: int
    rows: int
    drafts: tuple[int, ...]
    """Draft lengths, each an arm."""

    def __post_init__(self) -> None:
        if self.context < LEAST_CONTEXT:
            raise ArgumentError(f"cell {self.name!r}: a context of at least {LEAST_CONTEXT} tokens is needed")
        if not 1 <= self.rows <= MOST_ROWS:
            raise ArgumentError(f"cell {self.name!r}: rows must be from 1 to {MOST_ROWS:,}")
        if not self.drafts or min(self.drafts) < 1 or max(self.drafts) > 64:
            lengths = "+".join(map(str, self.drafts))
            raise ArgumentError(f"cell {self.name!r}: draft lengths {lengths}: each must be from 1 to 64")
        if self.twin:
            shape_named(self.twin)

    @property
    def source(self) -> str:
        """The checkpoint that is opened."""
        return self.model.rpartition("@")[0] if self.twin else self.model

    @property
    def twin(self) -> str:
        """The shape that it is grown to; "" for the checkpoint itself."""
        source, _, shape = self.model.rpartition("@")
        return shape if source and "/" not in shape else ""

    @property
    def name(self) -> str:
        """For tables, targets and the journal."""
        own = self.twin or (Path(self.model).stem if Path(self.model).suffix == ".gguf" else Path(self.model).name)
        return f"{own} {self.context}x{self.rows}"

    @property
    def key(self) -> str:
        """All of it, so that a journal's cell is taken up only where nothing differs."""
        return f"{self.model}:{self.context}x{self.rows}:{'+'.join(map(str, self.drafts))}"


def parse_cell(text: str, model: str, drafts: Sequence[int]) -> CellShape:
    """A cell as it is typed (`FORM`); what it leaves out is `model` and `drafts`. Raises ArgumentError."""
    found = _CELL.fullmatch(text.strip())
    if found is None:
        raise ArgumentError(f"cell {text!r} is not of the form {FORM}, for example demo:8000x64:4+8")
    lengths = [int(length) for length in found["drafts"].split("+")] if found["drafts"] else drafts
    return CellShape(found["model"] or model, int(found["context"]), int(found["rows"]), tuple(lengths))


def names_model(text: str) -> bool:
    """Whether a cell, as it is typed, names its model."""
    found = _CELL.fullmatch(text.strip())
    return bool(found and found["model"])


def names_drafts(text: str) -> bool:
    """Whether a cell, as it is typed, names its draft lengths."""
    found = _CELL.fullmatch(text.strip())
    return bool(found and found["drafts"])
