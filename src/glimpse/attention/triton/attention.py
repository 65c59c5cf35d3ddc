"""Attention of rows that read everything: launch settings and buffers fixed when a graph is captured."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.attention.triton.join import LOG2E, join_kernel
from glimpse.attention.triton.linked import launch_options
from glimpse.attention.triton.paged import paged_kernel
from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.sizes import links, padded, processors
from glimpse.attention.triton.splits import Splits
from glimpse.errors import ArgumentError

TREE = 16
"""Queries a row from which a tree is meant."""
JOINED = 8
"""Pieces of one length that a joining program reads at once."""
MANY = 64
"""The same where they have any length and a row usually has more than `JOINED`. Two sizes: each is a kernel."""
PRODUCT_FROM = 64
"""Folded rows from which the importance is summed by a matrix product: below, adding up is faster."""


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Heads of one layer."""

    heads: int
    kv_heads: int
    head_dim: int

    @property
    def group(self) -> int:
        """Query heads that share a key/value head."""
        return self.heads // self.kv_heads


@dataclass(frozen=True, slots=True)
class PagedConfig:
    """How a launch is cut up. Changes the time and, by rounding, the last bits; never what is computed."""

    block: int = 64
    """Positions a program handles at a time."""
    warps: int = 4
    stages: int = 5
    """(stages - 1) / 2 blocks are in flight: keys wait for the page table, which is loaded one stage before."""
    waves: float = 2.0
    """Programs per multiprocessor that the pieces should fill."""
    tile: int = 64
    """Folded rows (queries times the group) that a program takes at most; more are shared out to several."""
    linked: bool = False
    """Programmatic dependent launch (`linked`)."""
    piece: int = 0
    """Positions of every piece, a multiple of the block; 0: as fill the machine."""
    longest: int = 0
    """With a `piece`: positions that a row may have."""

    @classmethod
    def bitwise(cls, longest: int, device: torch.device) -> PagedConfig:
        """One cut for all batches and widths, so that a token's result is the same bits in each.

        Pieces begin at multiples of 512. A program's matrix has 16 rows however many are meant: with more, warps would
        share out a row's sum otherwise, and the matrix units have other instructions from 64 on.
        """
        return cls(block=64, warps=2, tile=16, linked=links(device), piece=512, longest=longest)

    @classmethod
    def fit(cls, shape: HeadShape, rows: int, queries: int, device: torch.device) -> PagedConfig:
        """What measured best on an H200 (docs/performance-gpu.md), by the side M of the folded matrix and the head.

        Where rows fill the machine, one warp does a whole block of a small M: it exchanges nothing with others. Decode
        and short verify rows have the same blocks and pieces, so that both come to the same bits.
        """
        m, linked = padded(shape.group * queries, 16), links(device)
        if 2 * rows * shape.kv_heads < processors(device):
            return cls(block=64, warps=2 if m <= 32 else 4, linked=linked)
        if shape.head_dim <= 64 and m <= 32:
            return cls(block=64, warps=1, stages=3, waves=8.0, linked=linked)
        if m <= 32:
            return cls(block=64, warps=2, linked=linked)
        return cls(block=64 if shape.head_dim > 64 and queries >= TREE else 128, warps=4, linked=linked)


@dataclass(frozen=True, slots=True)
class Importance:
    """What a verify row leaves behind for the next recall set, of one layer. Only `Paged.counted` queries count."""

    scores: Tensor
    """[rows, kv_heads, max_len] bfloat16 or wider, written below each row's own tokens: the sum over the group's heads
    and the row's queries of exp(score - reference). Comparable within a key/value head."""
    reference: Tensor
    """[rows, heads] float32: an estimate of each head's log-sum-exp, as left by the round before. Finite."""
    reference_out: Tensor
    """[rows, heads] float32: the new mean over the row's queries. May be `reference`. Idle rows are left alone."""
    weights: Tensor | None = None
    """[rows, queries] float32: how much each query counts; None: 1."""


class Paged:
    """Attention over pages for `rows` rows of `queries` tokens each; row r owns tokens r * queries and on.

    `plan` once a forward, then call it for every layer. Made once per graph: its buffers must outlive the graph.
    """

    def __init__(
        self,
        shape: HeadShape,
        rows: int,
        queries: int,
        page_size: int,
        device: torch.device | str,
        config: PagedConfig | None = None,
    ) -> None:
        """Raises ArgumentError for heads that do not divide into groups."""
        if shape.heads % shape.kv_heads:
            raise ArgumentError(f"{shape.heads} query heads do not share {shape.kv_heads} key/value heads evenly")
        self.shape, self.rows, self.queries, self.page_size = shape, rows, queries, page_size
        device = torch.device(device)
        self.config = config or PagedConfig.fit(shape, rows, queries, device)
        # 16 rows at least: the matrix units' least side.
        self.folded = padded(shape.group * min(queries, max(1, self.config.tile // shape.group)), 16)
        self.counted = min(queries, self.folded // shape.group)
        self.tiles = -(-queries // self.counted)
        self.splits = self._splits(device)
        parts = (self.splits.items, shape.kv_heads, self.tiles, self.folded)
        self.part_lse = torch.empty(parts, dtype=torch.float32, device=device)
        self.part_out = torch.empty(*parts, shape.head_dim, dtype=torch.float32, device=device)
        # A joining program reads a row's usual pieces at once, as long as they fit into its registers.
        few = self.config.piece or self.splits.items <= JOINED * rows
        usual = JOINED if few else MANY
        self.chunk = min(usual, max(2, 8192 // padded(shape.head_dim, 16)))

    def _splits(self, device: torch.device) -> Splits:
        config, rows = self.config, self.rows
        if config.piece:
            items = rows * -(-config.longest // config.piece)
            return Splits.empty(rows, items, config.block, device, config.piece // config.block)
        items = int(config.waves * processors(device) / (self.shape.kv_heads * self.tiles))
        return Splits.empty(rows, items, config.block, device)

    @property
    def cut(self) -> tuple[int, int]:
        """Queries of a row, and tiles: numbers of a launch, for no width should compile kernels anew."""
        return self.queries, self.tiles

    def plan(self, lengths: Tensor) -> None:
        """Shares out rows of `lengths` [rows] int32, the rows' own tokens counted in; 0: idle."""
        self.splits.update(lengths)

    def __call__(
        self,
        q: Tensor,
        keys: Tensor,
        values: Tensor,
        table: Tensor,
        lengths: Tensor,
        *,
        counts: Tensor | None = None,
        ragged: Ragged | None = None,
        tree: Tensor | None = None,
        importance: Importance | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Attention of one layer: [rows * queries, heads, head_dim], like `q`, scale 1 / sqrt(head_dim).

        `keys`, `values` [kv_heads, slots, head_dim] are one layer of the pool; `table` [rows, pages] int32; `lengths`
        as planned. `counts` [rows] int32: real tokens of each row (None: all `queries`); the others come out as zeros.
        Token i of a row sees everything before the row's tokens, and of these 0 to i, or those whose bit is set in
        `tree` [rows, queries] int64. `ragged`: `q` and the result are [N, heads, head_dim] instead, the tokens of each
        row where that says, at most `queries` of them; rows with a count of 0 are passed over. The keys and values of
        the rows' tokens are in the pool already. Each token's heads lie together in `q`; all else is contiguous.
        """
        out = q.new_empty(q.shape) if out is None else out
        self.pieces(q, keys, values, table, lengths, counts=counts, ragged=ragged, tree=tree, importance=importance)
        self._join(out, counts, ragged, importance)
        return out

    def pieces(
        self,
        q: Tensor,
        keys: Tensor,
        values: Tensor,
        table: Tensor,
        lengths: Tensor,
        *,
        counts: Tensor | None = None,
        ragged: Ragged | None = None,
        tree: Tensor | None = None,
        importance: Importance | None = None,
    ) -> None:
        """The first launch of a call alone: leaves `part_out` and `part_lse`, for whoever joins them otherwise."""
        shape, config = self.shape, self.config
        weights = None if importance is None else importance.weights
        paged_kernel[(shape.kv_heads * self.tiles, self.splits.items)](
            q, keys, values, table, lengths, counts, None if ragged is None else ragged.firsts, tree,
            self.splits.work, self.part_out, self.part_lse,
            None if importance is None else importance.scores,
            None if importance is None else importance.reference,
            weights, self.splits.items, *self.cut, q.stride(0), keys.stride(0), table.stride(0),
            0 if importance is None else importance.scores.stride(1),
            float(shape.head_dim**-0.5 * LOG2E.value),
            BLOCK=config.block, PAGE=self.page_size, COUNTS=counts is not None, RAGGED=ragged is not None,
            TREE=tree is not None, IMPORTANCE=importance is not None, WEIGHTED=weights is not None,
            SINGLE=self.queries == 1, M=self.folded, PRODUCT=self.folded >= PRODUCT_FROM,
            num_warps=config.warps, num_stages=config.stages, **self._sizes(),
        )  # fmt: skip

    def _join(self, out: Tensor, counts: Tensor | None, ragged: Ragged | None, importance: Importance | None) -> None:
        firsts, owners = (None, None) if ragged is None else (ragged.firsts, ragged.owners)
        join_kernel[(len(out), self.shape.heads)](
            self.part_out, self.part_lse, self.splits.first, counts, firsts, owners, out,
            None if importance is None else importance.reference_out, *self.cut, self.folded,
            PAD=1 if importance is None else padded(self.folded // self.shape.group), CHUNK=self.chunk,
            COUNTS=counts is not None, RAGGED=ragged is not None, REFERENCE=importance is not None,
            num_warps=4 if self.chunk > 16 else 2, **self._sizes(),
        )  # fmt: skip

    def _sizes(self) -> dict[str, int | bool]:
        shape = self.shape
        return {
            "KV_HEADS": shape.kv_heads, "GROUP": shape.group, "DIM": shape.head_dim,
            "DIM_PAD": padded(shape.head_dim, 16), **launch_options(self.config.linked),
        }  # fmt: skip
