"""The paper's importance statistic for device rounds, as reference: slow, and large in memory.

SparseSpec-L (arXiv 2607.27735, "sparse index") sums, per layer and head, the attention weights of the last W accepted
queries. A round accepts fewer than W, and which it accepts is known only when its forward has ended, so the weights of
every query are kept apart. The kernels' own statistic (`glimpse.attention.triton.attention.Importance`) keeps one
number a position instead; what that costs in acceptance is measured by benchmarks/gpu_importance.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.attention import HeadShape


class ExactWindow:
    """Weights of the last `window` accepted queries of B rows, summed over the heads of each group."""

    def __init__(
        self, shape: HeadShape, layers: int, rows: int, width: int, most: int, window: int, device: torch.device
    ) -> None:
        """`width`: positions a row can hold; `most`: queries of one verification."""
        self._shape, self._window = shape, window
        size = (layers, rows, shape.kv_heads)
        self._held = torch.zeros(*size, window, width, dtype=torch.float16, device=device)
        self._fresh = torch.zeros(*size, most, width, dtype=torch.float16, device=device)

    @property
    def state(self) -> list[Tensor]:
        """What a round changes."""
        return [self._held]

    def begin(self, sums: Tensor) -> None:
        """Starts from prompts, of whose last queries only the `sums` [layers, B, kv_heads, width] are known."""
        self._held.copy_((sums.float() / self._window).unsqueeze(3).expand_as(self._held))

    def observe(self, layer: int, q: Tensor, keys: Tensor, table: Tensor, page_size: int, lengths: Tensor) -> None:
        """Keeps the weights of queries `q` [B * n, heads, dim], the last tokens of rows of `lengths` [B] int32.

        `keys` [kv_heads, slots, dim] is a layer of the pool, `table` [B, pages] int32. Rows of length 0 leave zeros.
        """
        shape, rows = self._shape, len(lengths)
        width, queries = self._held.shape[-1], len(q) // rows
        ids = torch.arange(width, device=q.device)
        pages = table[:, (ids // page_size).clamp_max(table.shape[1] - 1)].long()
        own = keys[:, pages * page_size + ids % page_size].transpose(0, 1).float()
        grouped = q.reshape(rows, queries, shape.kv_heads, shape.group, shape.head_dim).permute(0, 2, 1, 3, 4).float()
        scores = grouped.flatten(2, 3) @ own.transpose(-1, -2) * float(shape.head_dim**-0.5)
        scores = scores.view(rows, shape.kv_heads, queries, shape.group, width)
        last = lengths[:, None] - queries + torch.arange(queries, device=q.device)
        hidden = ids > last[..., None]
        weights = torch.softmax(scores.masked_fill(hidden[:, None, :, None], -torch.inf), -1)
        self._fresh[layer, :, :, :queries] = weights.sum(3).nan_to_num(0.0)

    def settle(self, counts: Tensor, sums: Tensor) -> None:
        """Takes in the first `counts` [B] queries of each row, and writes the `sums` [layers, B, kv_heads, width]."""
        places = counts.long()[:, None] + torch.arange(self._window, device=counts.device)
        index = places[:, None, :, None].expand(-1, self._shape.kv_heads, -1, self._held.shape[-1])
        for held, fresh, total in zip(self._held, self._fresh, sums, strict=True):
            held.copy_(torch.cat([held, fresh], 2).gather(2, index))
            total.copy_(held.float().sum(2))
