"""What the hardware allows: floors of steps from bytes and operations, ceilings of cells from measured acceptance.

The floor of a step is the sum over its serial parts (linears, attention, head) of max(bytes / bandwidth, operations /
rate), with bandwidth and rate measured in the same run (DESIGN section 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glimpse.bench.clock import copy_bandwidth, event_seconds
from glimpse.model.spec import DecoderSpec
from glimpse.planning import roofs
from glimpse.planning.work import step_work

LONGEST = 24
"""Drafts up to this length are looked at for a ceiling."""
BEHIND = 4
"""Positions behind its recall set that a draft step reads, on average."""
SCORE_BYTES = 4
"""Importance scores are float32."""
_COPIED = 1 << 31
_SIDE = 8192


@dataclass(frozen=True, slots=True)
class Machine:
    """What this device can do at best, measured in the same run."""

    bandwidth: float
    """Bytes a second of a large copy, read and written."""
    rate: float
    """Operations a second of a large matrix product in the model's dtype."""

    def seconds(self, moved: float, operations: float = 0.0) -> float:
        """A serial part's floor: `moved` bytes, and floating-point operations."""
        return max(moved / self.bandwidth, operations / self.rate)


@torch.inference_mode()
def measure_machine(device: torch.device | str, dtype: torch.dtype) -> Machine:
    """Takes about a second, and 8 GiB of a GPU's memory meanwhile."""
    device = torch.device(device)
    if device.type != "cuda":
        return Machine(roofs.bandwidth(device), roofs.rate(device, dtype))
    found = Machine(_copy_rate(), _product_rate(dtype))
    torch.cuda.empty_cache()
    return found


def _copy_rate() -> float:
    """The better of two kinds of copy: eager over bf16, captured over bytes."""
    source = torch.randn(_COPIED // 2, device="cuda", dtype=torch.bfloat16)
    target = torch.empty_like(source)
    return max(2 * _COPIED / event_seconds(lambda: target.copy_(source), 10), copy_bandwidth(_COPIED))


def _product_rate(dtype: torch.dtype) -> float:
    left, right = (torch.randn(_SIDE, _SIDE, device="cuda").to(dtype) for _ in range(2))
    left @ right
    return 2 * _SIDE**3 / event_seconds(lambda: left @ right, 10)


@dataclass(frozen=True, slots=True)
class Floors:
    """Floors of one model at one context and batch."""

    spec: DecoderSpec
    context: int
    rows: int
    machine: Machine
    dtype: torch.dtype = torch.bfloat16
    """Of weights and cache."""

    def step(self, queries: int, reads: int | None = None) -> float:
        """Seconds of a step of `queries` tokens a row, each row reading `reads` positions (None: the context)."""
        work = step_work(self.spec, self.dtype, self.rows, queries, self.context if reads is None else reads)
        return work.seconds(self.machine.bandwidth, self.machine.rate)

    def draft(self, budget: int) -> float:
        """Seconds of a draft step over `budget` positions and a few behind them."""
        return self.step(1, min(budget, self.context) + BEHIND)

    def select(self) -> float:
        """Seconds of choosing the recall sets: fresh scores are read, running ones read and written."""
        spec = self.spec
        return self.machine.seconds(3 * SCORE_BYTES * spec.layers * spec.kv_heads * self.context * self.rows)

    def ceiling(self, conditional: Sequence[float], budget: int) -> tuple[float, int]:
        """(tokens per second, draft length) of the best draft length at floors, given P(accept | all before) by depth.

        Beyond the measured depths the last one holds; without any, plain decoding is the ceiling.
        """
        best = (self.rows / self.step(1), 0)
        written, alive = 1.0, 1.0
        for length in range(1, LONGEST + 1 if conditional else 1):
            alive *= conditional[min(length, len(conditional)) - 1]
            written += alive
            seconds = length * self.draft(budget) + self.step(length + 1)
            best = max(best, (self.rows * written / seconds, length))
        return best
