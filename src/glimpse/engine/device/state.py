"""The rows of a batch, wholly on the device: nothing here needs the host between rounds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.attention.triton.picking import RowSettings
from glimpse.engine.device.report import Report


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
    active: Tensor
    """[B] int32, 0 or 1."""
    limit: Tensor
    """[B] int32: the length that a row may reach (see `commit` for when it goes idle)."""
    table: Tensor
    """[B, pages] int32: the page of each page_size positions."""
    settings: RowSettings
    """[B] each."""
    seeds: Tensor
    """[B] int64."""
    report: Report
    """What the host reads; `drafted`, `counts`, `committed`, `entropy` and `confidence` are parts of it."""

    @property
    def size(self) -> int:
        """B."""
        return self.tokens.shape[0]

    @property
    def most(self) -> int:
        """The longest draft."""
        return self.report.entropy.shape[1]

    @property
    def drafted(self) -> Tensor:
        """[B] int32: tokens drafted since the last commit."""
        return self.report.drafted

    @property
    def counts(self) -> Tensor:
        """[B] int32: tokens committed by the last round (0 for an idle row)."""
        return self.report.verdict.counts

    @property
    def committed(self) -> Tensor:
        """[B, most + 1] int64: those tokens."""
        return self.report.verdict.committed

    @property
    def entropy(self) -> Tensor:
        """[B, most] float32: entropy in nats of each draft law."""
        return self.report.entropy

    @property
    def confidence(self) -> Tensor:
        """[B, most] float32: probability of each draft token under its law."""
        return self.report.confidence

    @classmethod
    def empty(cls, size: int, width: int, most: int, pages: int, device: torch.device | str) -> DeviceRows:
        """Idle rows of at most `width` tokens and drafts of at most `most`."""

        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        return cls(
            tokens=zeros(size, width, dtype=torch.int64),
            length=zeros(size),
            active=zeros(size),
            limit=zeros(size),
            table=zeros(size, pages),
            settings=RowSettings.greedy(size, device),
            seeds=zeros(size, dtype=torch.int64),
            report=Report.empty(size, most, device),
        )

    def first(self, count: int) -> DeviceRows:
        """The first `count` rows: the same memory."""
        own = self.settings
        settings = RowSettings(own.temperature[:count], own.top_k[:count], own.top_p[:count], own.log_min_p[:count])
        return DeviceRows(
            self.tokens[:count], self.length[:count], self.active[:count], self.limit[:count], self.table[:count],
            settings, self.seeds[:count], self.report.first(count),
        )  # fmt: skip

    def move(self, source: int, target: int) -> None:
        """Row `target` becomes what row `source` is, its draft included; `source` goes idle."""
        own = self.settings
        for held in (
            self.tokens, self.length, self.active, self.limit, self.table, self.seeds, self.drafted, self.entropy,
            self.confidence, own.temperature, own.top_k, own.top_p, own.log_min_p,
        ):  # fmt: skip
            held[target] = held[source]
        self.active[source] = 0


@dataclass(frozen=True, slots=True)
class DeviceRecall:
    """What draft rows read, and the statistics it is chosen from, for L layers."""

    scores: Tensor
    """[L, B, kv_heads, width] bfloat16 (float32 where a Selector chooses): running importance of each position."""
    fresh: Tensor
    """Like `scores`: importance given by the last verification."""
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
        cls, layers: int, size: int, heads: int, kv_heads: int, width: int, budget: int, device: torch.device | str,
        dtype: torch.dtype = torch.bfloat16,
    ) -> DeviceRecall:  # fmt: skip
        """Nothing chosen yet; scores in `dtype`. The width is rounded up to whole words of 16 bytes."""
        shape, width = (layers, size, kv_heads), -(-width // 8) * 8
        return cls(
            scores=torch.zeros(*shape, width, dtype=dtype, device=device),
            fresh=torch.zeros(*shape, width, dtype=dtype, device=device),
            slots=torch.zeros(*shape, budget, dtype=torch.int32, device=device),
            count=torch.zeros(size, dtype=torch.int32, device=device),
            base=torch.zeros(size, dtype=torch.int32, device=device),
            reference=torch.zeros(layers, size, heads, device=device),
        )

    def first(self, count: int) -> DeviceRecall:
        """The first `count` rows: the same memory."""
        return DeviceRecall(
            self.scores[:, :count], self.fresh[:, :count], self.slots[:, :count], self.count[:count],
            self.base[:count], self.reference[:, :count],
        )  # fmt: skip

    def move(self, source: int, target: int) -> None:
        """Row `target` reads what row `source` does; `fresh` lives only within a step and stays behind."""
        for held in (self.scores, self.slots, self.reference):
            held[:, target] = held[:, source]
        self.count[target], self.base[target] = self.count[source], self.base[source]
