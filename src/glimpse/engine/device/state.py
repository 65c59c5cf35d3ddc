"""The rows of a synchronous batch, wholly on the device: nothing here needs the host between rounds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.attention.triton.picking import RowSettings


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """B rows that decode together.

    A row is idle where `active` is 0: it writes nothing and commits nothing. `length` counts prompt and committed
    tokens; all keys and values below `length - 1` are final. The draft stands in `tokens` behind `length`.
    """

    tokens: Tensor
    """[B, width] int64."""
    length: Tensor
    """[B] int32."""
    drafted: Tensor
    """[B] int32."""
    active: Tensor
    """[B] int32, 0 or 1."""
    limit: Tensor
    """[B] int32: a row goes idle when another round could reach beyond this length."""
    table: Tensor
    """[B, pages] int32: the page of each page_size positions."""
    settings: RowSettings
    """[B] each."""
    seeds: Tensor
    """[B] int64."""
    entropy: Tensor
    """[B, most] float32: entropy in nats of each draft law."""
    confidence: Tensor
    """[B, most] float32: probability of each draft token under its law."""
    counts: Tensor
    """[B] int32: tokens committed by the last round (0 for an idle row)."""
    committed: Tensor
    """[B, most + 1] int64: those tokens."""

    @property
    def size(self) -> int:
        """B."""
        return self.tokens.shape[0]

    @classmethod
    def empty(cls, size: int, width: int, most: int, pages: int, device: torch.device | str) -> DeviceRows:
        """Idle rows of at most `width` tokens and drafts of at most `most`."""

        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        settings = RowSettings(
            temperature=torch.ones(size, dtype=torch.float64, device=device),
            top_k=torch.ones(size, dtype=torch.int64, device=device),
            top_p=torch.full((size,), torch.inf, dtype=torch.float64, device=device),
            log_min_p=torch.full((size,), -torch.inf, dtype=torch.float64, device=device),
        )
        return cls(
            tokens=zeros(size, width, dtype=torch.int64),
            length=zeros(size),
            drafted=zeros(size),
            active=zeros(size),
            limit=zeros(size),
            table=zeros(size, pages),
            settings=settings,
            seeds=zeros(size, dtype=torch.int64),
            entropy=zeros(size, most, dtype=torch.float32),
            confidence=zeros(size, most, dtype=torch.float32),
            counts=zeros(size),
            committed=zeros(size, most + 1, dtype=torch.int64),
        )


@dataclass(frozen=True, slots=True)
class DeviceRecall:
    """What draft rows read, and the statistics it is chosen from, for L layers."""

    scores: Tensor
    """[L, B, kv_heads, width] bfloat16: running importance of each position."""
    fresh: Tensor
    """[L, B, kv_heads, width] bfloat16: importance given by the last verification."""
    slots: Tensor
    """[L, B, kv_heads, budget] int32: the chosen slots, sorted by position."""
    count: Tensor
    """[B] int32: how many of them are valid."""
    base: Tensor
    """[B] int32: from this position on everything is read."""
    reference: Tensor
    """[L, B, heads] float32: each head's log-sum-exp in the last verification."""

    @classmethod
    def empty(
        cls, layers: int, size: int, heads: int, kv_heads: int, width: int, budget: int, device: torch.device | str
    ) -> DeviceRecall:
        """Nothing chosen yet. The width is rounded up to whole words of 16 bytes."""
        shape, width = (layers, size, kv_heads), -(-width // 8) * 8
        return cls(
            scores=torch.zeros(*shape, width, dtype=torch.bfloat16, device=device),
            fresh=torch.zeros(*shape, width, dtype=torch.bfloat16, device=device),
            slots=torch.zeros(*shape, budget, dtype=torch.int32, device=device),
            count=torch.zeros(size, dtype=torch.int32, device=device),
            base=torch.zeros(size, dtype=torch.int32, device=device),
            reference=torch.zeros(layers, size, heads, device=device),
        )
