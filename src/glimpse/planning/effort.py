"""How much `glimpse calibrate` measures, and what it opens a model with for that."""

from __future__ import annotations

from dataclasses import dataclass

from glimpse.engine.loaded import demand_of
from glimpse.engine.machine import MachineOptions
from glimpse.engine.place import place
from glimpse.errors import ArgumentError
from glimpse.planning.models import read_spec

CONTEXTS = (192, 768, 3072, 12288)
"""Tokens already read, cut to what fits. Apart by more than the factor of two within which steps are of one kind."""
DRAFTS = (0, 1, 3, 7, 15)
"""Draft lengths. 0 is plain decoding; the others give draft steps and a verification each round."""
GPU_CONTEXTS, GPU_DRAFTS, GPU_BATCHES = (768, 3072, 12288), (0, 1, 7, 15), (1, 8, 64)
"""On a GPU every shape of step is compiled and captured once, which takes longer than running it."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: rounds of each kind, until `seconds` are used up in all."""

    seconds: float = 60.0
    rounds: int = 3
    plain_steps: int = 6
    contexts: tuple[int, ...] = CONTEXTS
    batches: tuple[int, ...] = (1,)
    drafts: tuple[int, ...] = DRAFTS
    passes: int = 2
    """On a machine that others use too, the lesser time of two counts."""

    @property
    def room(self) -> int:
        """Tokens that the longest cell may write."""
        return max(self.plain_steps, self.rounds * (max(self.drafts) + 1)) + max(self.drafts) + 2


def effort_for(device: str, seconds: float, rows: int) -> Effort:
    """What is worth measuring on a device ("cpu", "cuda:0") where up to `rows` requests run at once.

    A GPU serves many rows almost at the price of one, so there batches are measured too.
    """
    if not device.startswith("cuda"):
        return Effort(seconds)
    batches = tuple(sorted({min(batch, rows) for batch in GPU_BATCHES}))
    return Effort(seconds, contexts=GPU_CONTEXTS, batches=batches, drafts=GPU_DRAFTS, passes=1)


def sizes_for(model: str, device: str, dtype: str, max_context: int | None, max_batch: int | None) -> dict[str, int]:
    """`max_batch_size` and `max_context` to open a model with for calibrating; those that LLM should choose are absent.

    On a GPU: as many rows as are measured and fit, none longer than is measured. Raises ArgumentError for a device,
    dtype or model that is not there, for sizes out of range, and for a batch on a CPU, where one row is measured.
    """
    sizes = {"max_context": max_context, "max_batch_size": max_batch}
    machine = MachineOptions(
        dtype=dtype, device=device, max_context=max_context, threads=None, seed=None,
        max_batch_size=1 if max_batch is None else max_batch,
    )  # fmt: skip
    found = place(machine.device).device
    if found.type != "cuda" and max_batch is not None:
        raise ArgumentError(f"--max-batch {max_batch} is for a GPU: on a CPU one request is measured; leave it out")
    if found.type == "cuda":
        spec, longest = read_spec(model), GPU_CONTEXTS[-1] + Effort(drafts=GPU_DRAFTS).room
        sizes["max_context"] = min(max_context or spec.context_length, longest)
        demand = demand_of(spec, machine.dtype_on(found), found, sizes["max_context"], 1, loaded=False)
        sizes["max_batch_size"] = max(1, min(max_batch or GPU_BATCHES[-1], demand.most_slots))
    return {name: size for name, size in sizes.items() if size is not None}
