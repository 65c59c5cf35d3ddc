"""What the hardware allows: floors of steps from bytes and operations, ceilings of cells from measured acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

BYTES = 2
"""bf16."""
LONGEST = 24
"""Drafts up to this length are looked at for a ceiling."""


@dataclass(frozen=True)
class Machine:
    """Measured in the same run."""

    bandwidth: float
    """Bytes a second of a large copy, read and written."""
    rate: float
    """Operations a second of a large bf16 product."""

    def seconds(self, bytes_: float, operations: float) -> float:
        """A serial part's floor."""
        return max(bytes_ / self.bandwidth, operations / self.rate)


@dataclass(frozen=True)
class Floors:
    """Floors of one model at one context and batch: the sum over linears, attention and head."""

    spec: Any
    context: int
    rows: int
    machine: Machine

    @property
    def head_weights(self) -> int:
        """Numbers in the head."""
        return int(self.spec.vocab_size * self.spec.hidden_size)

    @property
    def layer_weights(self) -> int:
        """Numbers in all layers' matrices."""
        spec = self.spec
        attention = spec.hidden_size * spec.head_dim * (2 * spec.heads + 2 * spec.kv_heads)
        return int(spec.layers * (attention + 3 * spec.hidden_size * spec.intermediate_size))

    def step(self, queries: int, reads: float | None = None) -> float:
        """Seconds of a step of `queries` tokens a row, each row reading `reads` positions (None: the context)."""
        reads = self.context if reads is None else reads
        spec, tokens = self.spec, self.rows * queries
        kv = spec.layers * spec.kv_heads * spec.head_dim * 2 * BYTES * reads * self.rows
        mixing = 4.0 * spec.layers * spec.heads * spec.head_dim * reads * tokens
        linears, head = self.layer_weights, self.head_weights
        return (
            self.machine.seconds(linears * BYTES, 2.0 * linears * tokens)
            + self.machine.seconds(kv, mixing)
            + self.machine.seconds(head * BYTES, 2.0 * head * tokens)
        )

    def draft(self, budget: int) -> float:
        """Seconds of a draft step over `budget` positions and a few behind them."""
        return self.step(1, budget + 4)

    def ceiling(self, conditional: Sequence[float], budget: int) -> tuple[float, int]:
        """(tokens per second, draft length) of the best draft length at floors, given P(accept | all before) by depth.

        Beyond the measured depths the last one holds.
        """
        best = (self.rows / self.step(1), 0)
        written, alive = 1.0, 1.0
        for length in range(1, LONGEST + 1):
            alive *= conditional[min(length, len(conditional)) - 1]
            written += alive
            seconds = length * self.draft(budget) + self.step(length + 1)
            best = max(best, (self.rows * written / seconds, length))
        return best
