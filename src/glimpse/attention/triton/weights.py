"""The attention weights of one query a row, in all layers at once, after a forward has left each head's log-sum-exp.

The by-product of `paged` is relative to the step before, head by head; where heads are then compared with one another,
or numbers with those of another row, it is not enough. Keys are read once more, for the rows that ask for it alone.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.attention import HeadShape
from glimpse.attention.triton.join import LOG2E
from glimpse.attention.triton.paged import slots_at
from glimpse.attention.triton.sizes import padded

BLOCK = 128
"""Positions of a program."""


@triton.jit(do_not_specialize=["rows", "table_stride", "reference_stride", "out_layer", "out_head"])
def _weights_kernel(
    q: tl.tensor,
    keys: tl.tensor,
    table: tl.tensor,
    lengths: tl.tensor,
    reference: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    layer_stride: tl.tensor,
    head_stride: tl.tensor,
    table_stride: tl.tensor,
    reference_stride: tl.tensor,
    out_layer: tl.tensor,
    out_head: tl.tensor,
    scale: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    M: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    layer, head = tl.program_id(0) // KV_HEADS, tl.program_id(0) % KV_HEADS
    row, start = tl.program_id(1), tl.program_id(2) * BLOCK
    length = tl.load(lengths + row)
    if start >= length:
        return
    m, d = tl.arange(0, M), tl.arange(0, DIM_PAD)
    own = head * GROUP + m
    first = (layer * rows + row) * (KV_HEADS * GROUP)
    wanted = (m < GROUP)[:, None] & (d < DIM)[None, :]
    q_block = tl.load(q + (first + own).to(tl.int64)[:, None] * DIM + d[None, :], mask=wanted, other=0.0)
    at = reference + layer * reference_stride + row * (KV_HEADS * GROUP) + own
    total = tl.load(at, mask=m < GROUP, other=0.0) * LOG2E
    position = start + tl.arange(0, BLOCK)
    inside = position < length
    slot = slots_at(table + row * table_stride, position, inside, PAGE)
    keys += layer.to(tl.int64) * layer_stride + head.to(tl.int64) * head_stride
    k = tl.load(keys + slot[:, None] * DIM + d[None, :], mask=inside[:, None] & (d < DIM)[None, :], other=0.0)
    scores = tl.dot(q_block, tl.trans(k), input_precision="ieee") * scale - total[:, None]
    weights = tl.sum(tl.where((m < GROUP)[:, None], tl.exp2(scores), 0.0), 0)
    out += layer.to(tl.int64) * out_layer + (row * KV_HEADS + head).to(tl.int64) * out_head
    tl.store(out + position, weights.to(out.dtype.element_ty), mask=inside)


def weigh_rows(
    shape: HeadShape, page_size: int, q: Tensor, keys: Tensor, table: Tensor, lengths: Tensor, reference: Tensor,
    out: Tensor,
) -> None:  # fmt: skip
    """Writes to `out` [layers, rows, kv_heads, width] what the last token of each row gives all its positions: the
    softmax weights, summed over a group's heads.

    `q` [layers, rows, heads, head_dim]; `keys` [layers, kv_heads, slots, head_dim] is the pool; `table` [rows, pages]
    and `lengths` [rows] int32, that token counted in; `reference` [layers, rows, heads] float32: the heads' exact
    log-sum-exps. Of rows of length 0 nothing is read or written. `q` is contiguous; of the rest the last dimension.
    """
    layers, rows, _, width = out.shape
    _weights_kernel[(layers * shape.kv_heads, rows, -(-width // BLOCK))](
        q, keys, table, lengths, reference, out, rows, keys.stride(0), keys.stride(1), table.stride(0),
        reference.stride(0), out.stride(0), out.stride(2), float(shape.head_dim**-0.5 * LOG2E.value),
        KV_HEADS=shape.kv_heads, GROUP=shape.group, M=padded(shape.group, 16), DIM=shape.head_dim,
        DIM_PAD=padded(shape.head_dim, 16), PAGE=page_size, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
