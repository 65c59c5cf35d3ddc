"""What a step tells the host of its rows: one block of memory, so that one copy brings all of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod

import torch
from torch import Tensor

from glimpse.attention.triton.rows import Verdict


@dataclass(frozen=True, slots=True)
class Report:
    """B rows, drafts of at most `most` tokens; the fields are views of `block`."""

    block: Tensor
    """[bytes] uint8."""
    verdict: Verdict
    """Of the last round; an idle row committed nothing."""
    drafted: Tensor
    """[B] int32: tokens drafted since."""
    entropy: Tensor
    """[B, most] float32: entropy in nats of each draft law."""
    confidence: Tensor
    """[B, most] float32: probability of each draft token under its law."""

    @classmethod
    def over(cls, block: Tensor, size: int, most: int) -> Report:
        """The report of `size` rows in a block of `bytes_for(size, most)` bytes."""
        made, at = {}, 0
        for name, (shape, dtype) in _layout(size, most).items():
            length = prod(shape) * dtype.itemsize
            made[name] = block[at : at + length].view(dtype).view(shape)
            at += length
        verdict = Verdict(*(made.pop(name) for name in ("counts", "committed", "judged", "broken", "relaxed")))
        return cls(block, verdict, **made)

    @classmethod
    def empty(cls, size: int, most: int, device: torch.device | str) -> Report:
        """All zero."""
        return cls.over(torch.zeros(bytes_for(size, most), dtype=torch.uint8, device=device), size, most)

    def first(self, count: int) -> Report:
        """The first `count` rows: the same memory; the block is the whole one."""
        own = self.verdict
        verdict = Verdict(*(getattr(own, field.name)[:count] for field in fields(Verdict)))
        return Report(self.block, verdict, self.drafted[:count], self.entropy[:count], self.confidence[:count])


def bytes_for(size: int, most: int) -> int:
    """Bytes of a report's block."""
    return sum(prod(shape) * dtype.itemsize for shape, dtype in _layout(size, most).values())


def _layout(size: int, most: int) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    # The widest numbers first: every field is then aligned.
    flat = dict.fromkeys(("counts", "judged", "broken", "relaxed", "drafted"), ((size,), torch.int32))
    return {
        "committed": ((size, most + 1), torch.int64),
        "entropy": ((size, most), torch.float32),
        "confidence": ((size, most), torch.float32),
        **flat,
    }
