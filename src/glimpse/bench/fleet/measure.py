"""A whole batch: opened, its prompts read once, all arms in turn."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from glimpse.bench.decode.cell import SAMPLED, law_of
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.runs import Say
from glimpse.bench.decode.shape import CellShape
from glimpse.bench.fleet.arms import FIXED, FLEET, NONE, USUAL, Arm, arms_named
from glimpse.bench.fleet.cell import FleetCell
from glimpse.bench.fleet.effort import FleetEffort
from glimpse.bench.fleet.runs import chosen_length, figures, measure_arms
from glimpse.bench.fleet.shape import FleetShape
from glimpse.bench.fleet.texts import half_easy
from glimpse.bench.floors import Floors, Machine
from glimpse.bench.grow_adapter import adapter_label
from glimpse.errors import GlimpseError


@dataclass(slots=True)
class FleetMeasuring:
    """What all batches of a run share; the cell read last stays open for the next one of the same prompts."""

    models: Models
    text: Text
    machine: Machine
    effort: FleetEffort = field(default_factory=FleetEffort)
    budget: int = 512
    temperature: float = 0.7
    arms: Sequence[str] | None = None
    """None: the usual ones, of those that run as graphs."""
    adapter: str | None = None
    """The file of an adapter, for arms that take one; it grows along with a twin (`Models.adapter`)."""
    most: dict[tuple[str, int, bool], int] = field(default_factory=dict)
    """By what batches have in common: the most rows that any of them will want."""
    _open: dict[tuple[str, int, bool], FleetCell] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """For the result file and the journal."""
        effort = asdict(self.effort)
        del effort["seconds"]
        return {
            "temperature": self.temperature, "sampled": SAMPLED, "budget": self.budget,
            "dtype": str(self.models.dtype).removeprefix("torch."), "text": self.text.label, "effort": effort,
            "arms": None if self.arms is None else list(self.arms),
            **({"adapter": adapter_label(self.adapter)} if self.adapter else {}),
        }  # fmt: skip

    def expect(self, shapes: Sequence[FleetShape]) -> None:
        """Batches that will be asked for: prompts are read for the largest of those that have them in common."""
        for shape in shapes:
            self.most[shape.batch] = max(shape.rows, self.most.get(shape.batch, 0))

    def cell(self, shape: CellShape, say: Say) -> dict[str, Any]:
        """Everything about one batch, as it goes into the result file; `say` hears how far it is."""
        assert isinstance(shape, FleetShape)
        try:
            return self._measured(shape, self._cell(shape, say), say)
        except BaseException:
            self.close()
            raise

    def _measured(self, shape: FleetShape, cell: FleetCell, say: Say) -> dict[str, Any]:
        arms = self._arms(cell, shape, say)
        runs, distinct = measure_arms(cell, shape.rows, arms, self.temperature, self.effort, say)
        made = [figures(own, runs[0], graphs=cell.graphs, half=shape.half) for own in runs]
        floors = Floors(cell.spec, shape.context, shape.rows, self.machine, cell.dtype)
        fleet = next((own for own in made if own["arm"] == FLEET), made[-1])
        ceiling, length = floors.ceiling(fleet["by_depth"], self.budget)
        return {
            "name": shape.name, "model": self._name(shape, cell), "context": shape.context, "rows": shape.rows,
            "half": shape.half, "how": cell.how, "budget": self.budget, "law": law_of(self.temperature),
            "dtype": str(cell.dtype).split(".")[1], "prefill_s": cell.prefill_s, "arms": made,
            "prompts": cell.rows, "distinct_4grams": distinct, "ceiling": ceiling, "ceiling_drafts": length,
            "plain_ceiling": shape.rows / floors.step(1),
        }  # fmt: skip

    def close(self) -> None:
        """Gives up the cell that is open."""
        while self._open:
            self._open.popitem()[1].close()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _cell(self, shape: FleetShape, say: Say) -> FleetCell:
        """The cell that is open, if it has the batch's prompts, else one with as many as batches to come want."""
        if shape.batch not in self._open or self._open[shape.batch].rows < shape.rows:
            self.close()
            cell = self._open[shape.batch] = self._opened(shape)
            cell.read()
            say(f"{self._name(shape, cell)}: {cell.rows} prompts read in {cell.prefill_s:.1f} s")
        return self._open[shape.batch]

    def _opened(self, shape: FleetShape) -> FleetCell:
        most = max(shape.rows, self.most.get(shape.batch, 0))
        try:
            return self._made(shape, most)
        except GlimpseError:
            if most == shape.rows:
                raise
        self.close()
        return self._made(shape, shape.rows)

    def _made(self, shape: FleetShape, rows: int) -> FleetCell:
        checkpoint = self.models.open(shape, shape.context + self.effort.room)
        prompts = self.text.prompts(checkpoint.tokenizer, shape.context, rows)
        asked = half_easy(prompts) if shape.half else prompts
        adapter = self.adapter and self.models.adapter(shape, self.adapter)
        return FleetCell(checkpoint, asked, self.budget, self.effort.room, adapter)

    def _name(self, shape: FleetShape, cell: FleetCell) -> str:
        return self.models.open(shape, shape.context + cell.room).name

    def _arms(self, cell: FleetCell, shape: FleetShape, say: Say) -> list[Arm]:
        arms = []
        for name in arms_named(USUAL if self.arms is None else self.arms):
            length = None
            if name == FIXED:
                length = chosen_length(cell, shape.rows, shape.drafts, self.temperature, self.effort)
                say(f"fixed: a draft of {length} of {'+'.join(map(str, shape.drafts))}")
            arm = Arm(name, length)
            why = cell.why_eager(arm) if name == "refresh" and self.arms is None else None
            if why:
                say(f"{name} left out: {why}")
            else:
                arms.append(arm)
        assert arms[0].name == NONE
        return arms
