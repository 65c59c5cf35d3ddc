"""What benchmarks/gpu_kernels.py runs: batches of real shapes on the device, over several layers' buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from glimpse.attention.triton.attention import HeadShape, Importance, Paged, PagedConfig
from glimpse.attention.triton.picking import RowSettings, Sample, SampleConfig
from glimpse.attention.triton.recalled import Recalled, RecalledConfig
from glimpse.attention.triton.select import Selection, capacity
from glimpse.attention.triton.sizes import links

SHAPES = {"8b": HeadShape(32, 8, 128), "135m": HeadShape(9, 3, 64), "1.7b": HeadShape(16, 8, 128)}
MODEL_LAYERS = {"8b": 32, "135m": 30, "1.7b": 28}
PAGE = 16
COLD = 400 << 20
"""Bytes to go through before a buffer is used again: several times the L2 cache."""
TAIL = 8
C = TypeVar("C", PagedConfig, RecalledConfig)


@dataclass
class Cell:
    """Rows of one length of one model, with as many layers as keep the L2 cache cold."""

    model: str
    batch: int
    length: int
    queries: int = 1
    dtype: torch.dtype = torch.bfloat16
    layers: int = 0

    def __post_init__(self) -> None:
        shape = self.shape = SHAPES[self.model]
        pages = -(-self.length // PAGE)
        self.layers = self.layers or max(2, min(MODEL_LAYERS[self.model], -(-COLD // self.bytes_read)))
        size = (self.layers, shape.kv_heads, self.batch * pages * PAGE, shape.head_dim)
        self.keys = torch.empty(size, dtype=self.dtype, device="cuda").normal_()
        self.values = torch.empty(size, dtype=self.dtype, device="cuda").normal_()
        order = torch.randperm(self.batch * pages, device="cuda", dtype=torch.int32)
        self.table = order.view(self.batch, pages)
        self.lengths = torch.full((self.batch,), self.length, dtype=torch.int32, device="cuda")
        tokens = self.batch * self.queries
        self.q = torch.empty(tokens, shape.heads, shape.head_dim, dtype=self.dtype, device="cuda").normal_()
        self.out = torch.empty_like(self.q)
        widths = (self.layers, self.batch, shape.kv_heads, pages * PAGE)
        self.scores = torch.zeros(widths, dtype=torch.bfloat16, device="cuda")
        self.reference = torch.full((self.batch, shape.heads), 9.0, device="cuda")

    @property
    def bytes_read(self) -> int:
        """Keys and values of one layer."""
        return self.batch * self.length * self.shape.kv_heads * self.shape.head_dim * 4

    def floor_bytes(self, importance: bool) -> int:
        """Bytes one layer must move: keys, values, queries, result, importance."""
        written = self.batch * self.shape.kv_heads * self.length * 2 if importance else 0
        return self.bytes_read + 2 * self.q.numel() * self.q.element_size() + written

    def paged_calls(
        self, config: PagedConfig | None, importance: bool, tree: torch.Tensor | None = None
    ) -> list[Callable[[], object]]:
        """One call a layer."""
        paged = Paged(self.shape, self.batch, self.queries, PAGE, "cuda", linked(config))
        paged.plan(self.lengths)

        def call(layer: int) -> Callable[[], object]:
            found = Importance(self.scores[layer], self.reference, self.reference) if importance else None
            return lambda: paged(
                self.q, self.keys[layer], self.values[layer], self.table, self.lengths, tree=tree, importance=found,
                out=self.out,
            )  # fmt: skip

        return [call(layer) for layer in range(self.layers)]

    def recall_sets(self, budget: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(random sorted slots [layers, batch, kv_heads, budget] from before the tail, counts [batch])."""
        span = self.length - TAIL
        positions = torch.rand(self.layers, self.batch, self.shape.kv_heads, span, device="cuda").topk(budget).indices
        positions = positions.sort(-1).values
        rows = torch.arange(self.batch, device="cuda").view(1, -1, 1, 1)
        selected = (self.table[rows, positions // PAGE] * PAGE + positions % PAGE).to(torch.int32)
        return selected, torch.full_like(self.lengths, budget)

    def recalled_calls(
        self, config: RecalledConfig | None, selected: torch.Tensor, counts: torch.Tensor
    ) -> list[Callable[[], object]]:
        """One call a layer, other slots in each."""
        recalled = Recalled(self.shape, self.batch, PAGE, "cuda", linked(config))
        bases = self.lengths - TAIL

        def call(layer: int) -> Callable[[], object]:
            keys, values = self.keys[layer], self.values[layer]
            return lambda: recalled(
                self.q, keys, values, selected[layer], counts, bases, self.lengths, self.table, out=self.out
            )

        return [call(layer) for layer in range(self.layers)]


def linked(config: C | None) -> C | None:
    """The settings launched as the defaults are: linked where the device can."""
    return config and replace(config, linked=links(torch.device("cuda")))


def recalled_bytes(shape: HeadShape, batch: int, budget: int) -> int:
    """Bytes one layer of a draft step must move."""
    return batch * shape.kv_heads * ((budget + TAIL) * shape.head_dim * 4 + budget * 4)


@dataclass
class SelectCell:
    """All segments of a model's layers and rows."""

    model: str
    rows: int
    length: int
    budget: int

    def __post_init__(self) -> None:
        layers, heads = MODEL_LAYERS[self.model], SHAPES[self.model].kv_heads
        self.scores = torch.rand(layers, self.rows, heads, self.length, device="cuda").pow_(8).bfloat16()
        self.running = self.scores.clone()
        self.selected, self.counts = capacity(self.rows, heads, layers, self.budget, "cuda")
        pages = self.length // PAGE
        self.table = torch.randperm(self.rows * pages, device="cuda", dtype=torch.int32).view(self.rows, pages)
        self.lengths = torch.full((self.rows,), self.length, dtype=torch.int32, device="cuda")
        self.budgets = torch.full_like(self.lengths, self.budget)
        self.decays = torch.full((self.rows,), 0.5, device="cuda")

    def call(self, config: Selection, running: bool) -> Callable[[], object]:
        """One selection for all layers."""
        extra = {"running": self.running, "decays": self.decays} if running else {}
        lengths = self.lengths
        return lambda: config(
            self.scores, lengths, lengths, self.budgets, self.table, self.selected, self.counts, **extra
        )

    def floor_bytes(self, running: bool) -> int:
        """Scores read once (running ones read and written too), slots written."""
        return self.scores.numel() * (6 if running else 2) + self.selected.numel() * 4


def tree_bits(rows: int, nodes: int) -> torch.Tensor:
    """[rows, nodes] int64 of random trees: each node sees itself and some of those before it."""
    own = 1 << torch.arange(nodes, device="cuda")
    return torch.randint(0, 1 << 62, (rows, nodes), device="cuda") & (own - 1) | own


LAWS = {
    "t0.7 k50 p0.9": (0.7, 50, 0.9),
    "greedy": (1.0, 1, 2.0),
    "t1": (1.0, 1 << 40, 2.0),
    "p0.9": (1.0, 1 << 40, 0.9),
}


def row_settings(rows: int, law: str) -> RowSettings:
    """The same law for all rows."""
    temperature, top_k, top_p = LAWS[law]
    double = {"dtype": torch.float64, "device": "cuda"}
    return RowSettings(
        torch.full((rows,), temperature, **double), torch.full((rows,), top_k, device="cuda"),
        torch.full((rows,), top_p, **double), torch.full((rows,), -torch.inf, **double),
    )  # fmt: skip


def peaked_logits(rows: int, vocab: int, dtype: torch.dtype) -> torch.Tensor:
    """Logits with a long tail and a few high ones, as language models give."""
    logits = torch.randn(rows, vocab, device="cuda") * 2
    logits.scatter_add_(1, torch.randint(0, vocab, (rows, 40), device="cuda"), torch.rand(rows, 40, device="cuda") * 10)
    return logits.to(dtype)


def sample_call(rows: int, vocab: int, dtype: torch.dtype, law: str, config: SampleConfig) -> Callable[[], object]:
    """One pick of every row."""
    sample, logits, settings = (
        Sample(rows, vocab, "cuda", config=config),
        peaked_logits(rows, vocab, dtype),
        row_settings(rows, law),
    )
    seeds, positions = torch.arange(rows, device="cuda"), torch.arange(rows, device="cuda")
    return lambda: sample(logits, settings, seeds, positions)
