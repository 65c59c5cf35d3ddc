"""Which batch is measured: a cell of `bench.decode`, perhaps with rows that are unlike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from glimpse.bench.decode.shape import CellShape, parse_cell

HALF = ":half"
"""Behind a cell: half of its rows have easy text, half have hard text."""


@dataclass(frozen=True)
class FleetShape(CellShape):
    """One batch; `drafts` are the lengths of which the pacer `fixed` gets the best. Raises as `CellShape`."""

    half: bool = False
    """Half of the rows have easy text."""

    @property
    def name(self) -> str:
        """See `CellShape.name`."""
        return super().name + (", half easy" if self.half else "")

    @property
    def key(self) -> str:
        """See `CellShape.key`."""
        return super().key + (HALF if self.half else "")

    @property
    def batch(self) -> tuple[str, int, bool]:
        """What cells have in common whose prompts can be read together."""
        return self.model, self.context, self.half


def parse_fleet(text: str, model: str, drafts: Sequence[int]) -> FleetShape:
    """A batch as it is typed: a cell, perhaps with ":half" behind it. Raises ArgumentError as `parse_cell`."""
    half = text.strip().endswith(HALF)
    cell = parse_cell(text.strip().removesuffix(HALF) if half else text, model, drafts)
    return FleetShape(**{field.name: getattr(cell, field.name) for field in fields(CellShape)}, half=half)
