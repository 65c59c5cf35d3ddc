"""A whole cell: opened, read once, all its steps and runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from glimpse.bench.decode.cell import SAMPLED, Cell, law_of
from glimpse.bench.decode.effort import Effort
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.runs import Say, measure_runs
from glimpse.bench.decode.shape import CellShape
from glimpse.bench.decode.steps import EIGHT, measure_steps
from glimpse.bench.decode.ties import MOVES, judge
from glimpse.bench.floors import Floors, Machine
from glimpse.bench.grow_adapter import adapter_label
from glimpse.model.checkpoint import Checkpoint

_SPARE = 64
"""Positions that a cell may need beyond prompt and output, for the checkpoint's context to hold; see `_spare`."""
_STEPS_AT = 0.7
"""Steps are timed while sampling, the dearer law."""
_JUDGED_ROWS = 64
"""Ties are looked for in cells of up to so many rows: the logits of more would take several GiB."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """What all cells of a run share."""

    models: Models
    text: Text
    machine: Machine
    effort: Effort = field(default_factory=Effort)
    budget: int = 512
    drafter: str = "sparse"
    temperatures: tuple[float, ...] = (0.7, 0.0)
    """Empty: steps only."""
    adapter: str | None = None
    """The file of an adapter, for a drafter that takes one; it grows along with a twin (`Models.adapter`)."""

    @property
    def settings(self) -> dict[str, Any]:
        """For the result file and the journal."""
        effort = asdict(self.effort)
        del effort["seconds"]
        return {
            "temperatures": list(self.temperatures), "sampled": SAMPLED, "budget": self.budget, "drafter": self.drafter,
            "dtype": str(self.models.dtype).removeprefix("torch."), "text": self.text.label, "effort": effort,
            **({"adapter": adapter_label(self.adapter)} if self.adapter else {}),
        }  # fmt: skip

    def cell(self, shape: CellShape, say: Say) -> dict[str, Any]:
        """Everything about one cell, as it goes into the result file; `say` hears how far it is."""
        drafts = sorted(set(shape.drafts))
        room, longest = self.effort.room(drafts), max(EIGHT, *drafts)
        checkpoint = self.models.open(shape, shape.context + room + _spare(longest))
        prompts = self.text.prompts(checkpoint.tokenizer, shape.context, shape.rows)
        adapter = self.adapter and self.models.adapter(shape, self.adapter)
        cell = open_cell(checkpoint, prompts, self.budget, room, longest, self.drafter, adapter)
        try:
            # The engine has a mode of its own for every step.
            with torch.inference_mode(self.models.device.type == "cuda"):
                return self._measured(shape, checkpoint, cell, drafts, say)
        finally:
            cell.close()

    def _measured(
        self, shape: CellShape, checkpoint: Checkpoint, cell: Cell, drafts: list[int], say: Say
    ) -> dict[str, Any]:
        say(f"{checkpoint.name}: prompts read in {cell.prefill_s:.1f} s")
        floors = Floors(cell.spec, cell.context, cell.rows, self.machine, cell.dtype)
        cuda = self.models.device.type == "cuda"
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        cell.resample(_STEPS_AT, 0)
        steps = measure_steps(cell, floors, drafts, self.budget, self.effort.repeats)
        say("steps timed")
        laws = {
            law_of(temperature): measure_runs(cell, floors, drafts, self.budget, temperature, self.effort, say)
            | self._ties(cell, checkpoint.tokenizer.vocab_size, max(drafts), temperature)
            for temperature in self.temperatures
        }
        return {
            "name": shape.name, "model": checkpoint.name, "context": shape.context, "rows": shape.rows,
            "drafter": self.drafter, "budget": self.budget, "how": cell.how, "dtype": str(cell.dtype).split(".")[1],
            "prefill_s": cell.prefill_s, "steps": steps, "laws": laws,
            "memory_gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
        }  # fmt: skip

    def _ties(self, cell: Cell, vocab: int, drafts: int, temperature: float) -> dict[str, Any]:
        """Positions at which verify rows pick otherwise than plain steps, where the cell can be asked."""
        batch = getattr(cell, "batch", None)
        if batch is None or cell.rows > _JUDGED_ROWS:
            return {"ties": None}
        from glimpse.bench.decode.on_device.forced import ForcedBatch

        return {"ties": judge(ForcedBatch(batch, vocab), drafts, temperature, move=MOVES.get(cell.dtype))}


def _spare(longest: int) -> int:
    """For drafts up to `longest`: an `EngineCell` takes 40 + longest, a `DeviceCell` 10 + 2 longest."""
    return max(_SPARE, 2 * longest + 24)


def open_cell(
    checkpoint: Checkpoint, prompts: Sequence[Sequence[int]], budget: int, room: int, longest: int, drafter: str,
    adapter: str | None,
) -> Cell:  # fmt: skip
    """Device rounds on a GPU, the engine elsewhere."""
    if checkpoint.decoder.device.type == "cuda":
        from glimpse.bench.decode.on_device.cell import DeviceCell

        return DeviceCell(checkpoint, prompts, budget, room, longest, drafter)
    from glimpse.bench.decode.host import EngineCell

    return EngineCell(checkpoint, prompts, budget, room, longest, drafter, adapter)
