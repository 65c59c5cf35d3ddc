"""Reading prompts on the device, row by row in large chunks, and the importance of their last queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right

from glimpse.cache.pool import PagePool
from glimpse.engine.device.forward import FusedForward
from glimpse.engine.device.mail import upload

CHUNK = 4096
"""Most prompt tokens in one forward."""
QUERIES = 16
"""Last queries whose attention weights make the first recall set."""


def summed(weights: Tensor) -> Tensor:
    """The paper's statistic (SparseSpec-L, "sparse index")."""
    return weights.sum(1)


@dataclass(frozen=True, slots=True)
class Scores:
    """Where a prompt leaves the importance of its positions."""

    fresh: Tensor
    """[layers, kv_heads, width], any float dtype."""
    reference: Tensor
    """[layers, heads] float32."""
    fuse: Callable[[Tensor], Tensor] = summed
    """[kv_heads, length] of the weights [kv_heads, queries, length] of the last queries, over a group's heads."""


def chunk_of(pending: int, most: int = CHUNK) -> int:
    """How many of the `pending` tokens of a prompt to read next: chunks are equal, so that the last has queries."""
    return math.ceil(pending / math.ceil(pending / most))


@torch.inference_mode()
def read(
    forward: FusedForward,
    pool: PagePool,
    extents: list[tuple[int, int]],
    tokens: Tensor,
    start: int,
    scores: Scores | None = None,
) -> Tensor:
    """Reads `tokens` [n] int64 into the positions from `start` on, over what stands before.

    `extents` are the (first slot, count) of the pool's runs that hold positions 0 up to start + n. Leaves the
    importance that the last tokens give to all positions in `scores`. Returns the hidden states [n, hidden] after the
    final norm.
    """
    stop, device = start + len(tokens), tokens.device
    slots = upload(torch.cat([torch.arange(first, first + count) for first, count in extents]), device)
    positions = torch.arange(start, stop, device=device)

    def held(layer: Tensor) -> Tensor:
        """[kv_heads, stop, head_dim]: a view where the pages lie together, else a copy."""
        first, count = extents[0]
        return layer[:, first : first + count] if len(extents) == 1 else layer.index_select(1, slots)

    def mix(layer: int, q: Tensor) -> Tensor:
        keys, values = held(pool.keys[layer]), held(pool.values[layer])
        if scores is not None:
            weigh(q[-QUERIES:], keys, scores.fresh[layer], scores.reference[layer], scores.fuse)
        bias = causal_lower_right(stop - start, stop)
        mixed = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None], keys[None], values[None], attn_mask=bias, enable_gqa=True
        )
        return mixed[0].transpose(0, 1)

    return forward(forward.embed(tokens), positions, slots[start:], mix)


def weigh(
    q: Tensor, keys: Tensor, scores: Tensor, reference: Tensor, fuse: Callable[[Tensor], Tensor] = summed
) -> None:
    """Writes the weights that queries [n, heads, dim], the last of `keys` [kv_heads, length, dim], give each position.

    Summed over the heads of a group, and over queries as `fuse` says, into `scores` [kv_heads, width], zero beyond; the
    heads' mean log-sum-exp into `reference` [heads].
    """
    kv_heads, length, dim = keys.shape
    grouped = q.reshape(len(q), kv_heads, -1, dim).permute(1, 2, 0, 3).float() * dim**-0.5
    logits = grouped @ keys[:, None].float().transpose(-1, -2)
    hidden = torch.ones(len(q), length, dtype=torch.bool, device=q.device).triu(length - len(q) + 1)
    logits.masked_fill_(hidden, -torch.inf)
    scores.zero_()
    scores[:, :length] = fuse(torch.softmax(logits, -1).sum(1))
    reference.copy_(torch.logsumexp(logits, -1).mean(-1).flatten())
