"""Bytes and operations of one decoding step, part by part, and the least time they take."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from glimpse.model.spec import DecoderSpec


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
        """The floor of the step (DESIGN section 7)."""
        return sum(part.seconds(bandwidth, rate) for part in (self.linears, self.attention, self.head))


def step_weight_bytes(spec: DecoderSpec, dtype: torch.dtype) -> int:
    """W: weight bytes that a step reads. An untied embedding is only looked up, a few rows a step."""
    looked_up = 0 if spec.tied else spec.vocab_size * spec.hidden_size
    return (spec.parameters() - looked_up) * dtype.itemsize


def step_work(spec: DecoderSpec, dtype: torch.dtype, batch: int, tokens: int, positions: int) -> StepWork:
    """`batch` rows of `tokens` query tokens each; each row's attention reads `positions`, once for all its tokens."""
    head = spec.vocab_size * spec.hidden_size
    linears = step_weight_bytes(spec, dtype) // dtype.itemsize - head
    queries = batch * tokens
    attended = 4 * spec.layers * spec.heads * spec.head_dim * queries * positions
    return StepWork(
        linears=Work(linears * dtype.itemsize, 2 * linears * queries),
        attention=Work(spec.kv_bytes_per_token(dtype) * batch * positions, attended),
        head=Work(head * dtype.itemsize, 2 * head * queries),
    )
