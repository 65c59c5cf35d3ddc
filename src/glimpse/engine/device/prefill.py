"""Reading prompts on the device, row by row in large chunks, and the importance of their last queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
AT_ONCE = 1 << 24
"""Weights that are there at once, in float32: as many layers together as that allows, since each costs the host some
twenty launches and short prompts leave the device waiting for them."""
Held = Callable[[Tensor], Tensor]
"""[..., kv_heads, length, head_dim] of a row, of a part of the pool [..., kv_heads, slots, head_dim]."""


def summed(weights: Tensor) -> Tensor:
    """The paper's statistic (SparseSpec-L, "sparse index")."""
    return weights.sum(-2)


@dataclass(frozen=True, slots=True)
class Scores:
    """Where a prompt leaves the importance of its positions."""

    fresh: Tensor
    """[layers, kv_heads, width], any float dtype."""
    reference: Tensor
    """[layers, heads] float32."""
    fuse: Callable[[Tensor], Tensor] = summed
    """[..., kv_heads, length] of the weights [..., kv_heads, queries, length] of the last queries, over a group's
    heads."""


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

    def held(layers: Tensor) -> Tensor:
        """[..., kv_heads, stop, head_dim]: a view where the pages lie together, else a copy."""
        first, count = extents[0]
        return layers[..., first : first + count, :] if len(extents) == 1 else layers.index_select(-2, slots)

    last = LastQueries(scores)
    # A mask object costs the host more than a launch, so there is one for all layers, and none where flags will do.
    masked: dict[str, Any] = {"attn_mask": causal_lower_right(stop - start, stop)} if start else {"is_causal": True}

    def mix(layer: int, q: Tensor) -> Tensor:
        last.keep(q)
        keys, values = held(pool.keys[layer]), held(pool.values[layer])
        mixed = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None], keys[None], values[None], enable_gqa=True, **masked
        )
        return mixed[0].transpose(0, 1)

    hidden = forward(forward.embed(tokens), positions, slots[start:], mix)
    last.weigh(pool, held, stop)
    return hidden


class LastQueries:
    """The last queries of a forward's layers, kept until all keys are there; nothing is where no scores are wanted."""

    def __init__(self, scores: Scores | None) -> None:
        self._scores, self._kept = scores, list[Tensor]()

    def keep(self, q: Tensor) -> None:
        """Of the next layer, [N, heads, head_dim]: a copy, as forwards write their queries over."""
        if self._scores is not None:
            self._kept.append(q[-QUERIES:].clone())

    def weigh(self, pool: PagePool, held: Held, length: int) -> None:
        """As `weigh_all`."""
        if self._scores is not None:
            weigh_all(torch.stack(self._kept), pool, held, length, self._scores)


def weigh_all(queries: Tensor, pool: PagePool, held: Held, length: int, scores: Scores) -> None:
    """Leaves the weights that the last queries [layers, n, heads, head_dim] of a row give to its `length` positions in
    the scores; `held`: the row's keys of those of layers."""
    layers, count, heads, _ = queries.shape
    batch = max(1, AT_ONCE // (heads * count * length))
    for first in range(0, layers, batch):
        own = slice(first, first + batch)
        weigh(queries[own], held(pool.keys[own]), scores.fresh[own], scores.reference[own], scores.fuse)


def weigh(
    q: Tensor, keys: Tensor, scores: Tensor, reference: Tensor, fuse: Callable[[Tensor], Tensor] = summed
) -> None:
    """Writes the weights that queries [layers, n, heads, dim], the last of `keys` [layers, kv_heads, length, dim], give
    each position.

    Summed over the heads of a group, and over queries as `fuse` says, into `scores` [layers, kv_heads, width], zero
    beyond; the heads' mean log-sum-exp into `reference` [layers, heads].
    """
    layers, kv_heads, length, dim = keys.shape
    count = q.shape[1]
    # A group's heads and queries together, so that the keys are read once for all of them.
    grouped = q.reshape(layers, count, kv_heads, -1, dim).permute(0, 2, 3, 1, 4).flatten(2, 3).float() * dim**-0.5
    logits = (grouped @ keys.float().transpose(-1, -2)).unflatten(2, (-1, count))
    hidden = torch.ones(count, length, dtype=torch.bool, device=q.device).triu(length - count + 1)
    logits.masked_fill_(hidden, -torch.inf)
    scores.zero_()
    scores[..., :length] = fuse(torch.softmax(logits, -1).sum(2))
    reference.copy_(torch.logsumexp(logits, -1).mean(-1).flatten(1))
