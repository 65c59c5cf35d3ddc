"""Bytes and operations of one decoding step, part by part, and the least time they take."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from glimpse.model.spec import DecoderSpec

SCORE_BYTES = 2
"""A position's importance for one layer and KV head: bfloat16, as GPUs keep it."""
SELECTION_PASSES = 4
"""Choosing recall sets writes and reads the new scores, and reads and writes the running ones."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a batch whose rows do the same."""

    batch: int
    tokens: int
    """Query tokens of each row: 1 is a plain or a draft step, g + 1 a verification of g drafts, 0 no forward."""
    positions: int
    """Positions that each row's attention reads, once for all its tokens."""
    learns: bool = False
    """It writes the importance of every position it reads."""
    selects: bool = False
    """Recall sets are chosen behind it."""
    gathers: bool = False
    """The positions lie scattered, as those of a recall set do."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one serial part of a step must move and compute."""

    bytes: float
    operations: float
    """Floating-point operations; a multiply-add counts two."""

    def seconds(self, bandwidth: float, rate: float) -> float:
        """max(bytes / bandwidth, operations / rate): the part cannot take less."""
        return max(self.bytes / bandwidth, self.operations / rate)


@dataclass(frozen=True, slots=True)
class StepWork:
    """The serial parts of one step: each waits for the one before, so their least times add up."""

    linears: Work
    attention: Work
    head: Work

    def seconds(self, bandwidth: float, rate: float) -> float:
        """The floor of the step: the sum over its serial parts."""
        return sum(part.seconds(bandwidth, rate) for part in (self.linears, self.attention, self.head))


def step_work(spec: DecoderSpec, dtype: torch.dtype, batch: int, tokens: int, positions: int) -> StepWork:
    """`batch` rows of `tokens` query tokens each; each row's attention reads `positions`, once for all its tokens."""
    head = spec.vocab_size * spec.hidden_size
    linears = spec.step_weight_bytes(dtype) // dtype.itemsize - head
    queries = batch * tokens
    attended = 4 * spec.layers * spec.heads * spec.head_dim * queries * positions
    return StepWork(
        linears=Work(linears * dtype.itemsize, 2 * linears * queries),
        attention=Work(spec.kv_bytes_per_token(dtype) * batch * positions, attended),
        head=Work(head * dtype.itemsize, 2 * head * queries),
    )


def score_bytes(spec: DecoderSpec, step: Step) -> int:
    """Bytes of the importance of all positions that a step reads."""
    return SCORE_BYTES * spec.layers * spec.kv_heads * step.batch * step.positions
