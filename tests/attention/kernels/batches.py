"""Random batches over scattered pages, for the kernels' tests."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Batch:
    """Rows with scattered pages in one layer of a pool full of noise, padding and idle rows included."""

    q: Tensor
    keys: Tensor
    values: Tensor
    table: Tensor
    lengths: Tensor
    page_size: int

    def wide(self, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, int]:
        """The batch for a definition, in a wider dtype."""
        q, keys, values = (x.to(dtype) for x in (self.q, self.keys, self.values))
        return q, keys, values, self.table, self.lengths, self.page_size


def make_batch(
    lengths: list[int],
    queries: int,
    heads: int,
    kv_heads: int,
    dim: int,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    page_size: int = 16,
    seed: int = 0,
) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(device, dtype)

    width = -(-max(max(lengths), 1) // page_size)
    pages = len(lengths) * width + 3
    table = torch.randperm(pages, generator=generator)[: len(lengths) * width].view(len(lengths), width)
    return Batch(
        1.5 * draw(len(lengths) * queries, heads, dim),
        draw(kv_heads, pages * page_size, dim),
        draw(kv_heads, pages * page_size, dim),
        table.to(device, torch.int32),
        torch.tensor(lengths, dtype=torch.int32, device=device),
        page_size,
    )


def error(found: Tensor, right: Tensor) -> float:
    """||found - right|| / ||right||; NaN never passes a comparison."""
    return float((found.double() - right.double()).norm() / right.double().norm().clamp_min(1e-30))


TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
