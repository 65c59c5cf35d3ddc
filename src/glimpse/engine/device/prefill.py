"""Reading prompts on the device, row by row in large chunks, and the importance of their last queries."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right

from glimpse.cache.pool import PagePool
from glimpse.engine.device.forward import FusedForward
from glimpse.engine.device.state import DeviceRecall, DeviceRows

CHUNK = 4096
QUERIES = 16
"""Last queries whose attention weights make the first recall set."""


@torch.inference_mode()
def prefill(
    forward: FusedForward, pool: PagePool, rows: DeviceRows, recall: DeviceRecall, row: int, prompt: Tensor
) -> None:
    """Reads `prompt` [n] int64 (at least two tokens) into `row`, whose pages must lie together.

    All but the last token are read: the first decode step reads that one. Leaves the row's length, and the importance
    in `recall.fresh`.
    """
    count, size = len(prompt) - 1, pool.page_size
    first_slot = int(rows.table[row, 0]) * size
    rows.tokens[row, : len(prompt)] = prompt
    for start in range(0, count, CHUNK):
        stop = min(count, start + CHUNK)
        positions = torch.arange(start, stop, device=prompt.device)
        last = stop == count

        def mix(layer: int, q: Tensor, start: int = start, stop: int = stop, last: bool = last) -> Tensor:
            keys = pool.keys[layer, :, first_slot : first_slot + stop]
            values = pool.values[layer, :, first_slot : first_slot + stop]
            if last:
                weigh(q[-QUERIES:], keys, recall.fresh[layer, row], recall.reference[layer, row])
            bias = causal_lower_right(stop - start, stop)
            mixed = F.scaled_dot_product_attention(
                q.transpose(0, 1)[None], keys[None], values[None], attn_mask=bias, enable_gqa=True
            )
            return mixed[0].transpose(0, 1)

        forward(forward.embed(prompt[start:stop]), positions, first_slot + positions, mix)
    rows.length[row] = len(prompt)


def weigh(q: Tensor, keys: Tensor, scores: Tensor, reference: Tensor) -> None:
    """Writes the weights that queries [n, heads, dim], the last of `keys` [kv_heads, length, dim], give each position.

    Summed over queries and the heads of a group into `scores` [kv_heads, width], zero beyond; the heads' mean
    log-sum-exp into `reference` [heads]. The paper's statistic (SparseSpec-L, "sparse index").
    """
    kv_heads, length, dim = keys.shape
    grouped = q.reshape(len(q), kv_heads, -1, dim).permute(1, 2, 0, 3).float() * dim**-0.5
    logits = grouped @ keys[:, None].float().transpose(-1, -2)
    hidden = torch.ones(len(q), length, dtype=torch.bool, device=q.device).triu(length - len(q) + 1)
    logits.masked_fill_(hidden, -torch.inf)
    scores.zero_()
    scores[:, :length] = torch.softmax(logits, -1).sum((1, 2))
    reference.copy_(torch.logsumexp(logits, -1).mean(-1).flatten())
