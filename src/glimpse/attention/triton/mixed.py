"""The tokens of a step in which every row does what it wants: one behind its draft, its whole draft, or none.

ASPIRE's unsynchronised batch: rows that draft and rows that verify share one forward. What a row wants comes with the
launch; how long its draft is, and whether there is room for more, only the device knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.rows import Fed, embed
from glimpse.attention.triton.sizes import LANES, padded, parted


class Want(IntEnum):
    """What a row does in a mixed step."""

    IDLE = 0
    DRAFT = 1
    """One more draft token, over what the row recalls."""
    PLAIN = 2
    """One token under full attention; a draft there is gives way. Learns nothing."""
    ADD = 3
    """Verifies what is drafted; its importance is added to that of earlier rounds."""
    ANEW = 4
    """The same; its importance alone counts."""

    def tokens(self, drafted: int) -> int:
        """Query tokens of a row with a draft of `drafted`."""
        return 0 if self is Want.IDLE else drafted + 1 if self >= Want.ADD else 1


_DRAFT = tl.constexpr(int(Want.DRAFT))
_PLAIN = tl.constexpr(int(Want.PLAIN))


@triton.jit(do_not_specialize=["rows", "total", "queries", "tokens_stride", "table_stride"])
def _mixed_kernel(
    tokens: tl.tensor,
    length: tl.tensor,
    drafted: tl.tensor,
    limit: tl.tensor,
    active: tl.tensor,
    want: tl.tensor,
    table: tl.tensor,
    embedding: tl.tensor,
    ids: tl.tensor,
    positions: tl.tensor,
    slots: tl.tensor,
    owners: tl.tensor,
    firsts: tl.tensor,
    counts: tl.tensor,
    full: tl.tensor,
    recalled: tl.tensor,
    embedded: tl.tensor,
    rows: tl.tensor,
    total: tl.tensor,
    queries: tl.tensor,
    tokens_stride: tl.tensor,
    table_stride: tl.tensor,
    ROWS: tl.constexpr,
    PAGE: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    token = tl.program_id(0)
    # Every program shares out the tokens anew: a launch of its own would take longer than a sum over the rows.
    row = tl.arange(0, ROWS)
    there = row < rows
    wish = tl.load(want + row, mask=there, other=0) * tl.load(active + row, mask=there, other=0)
    have = tl.load(drafted + row, mask=there, other=0)
    last = tl.load(length + row, mask=there, other=1) - 1
    # The token drafted would lie one further, and the target adds one of its own behind it.
    drafts = (wish == _DRAFT) & (last + have + 2 < tl.load(limit + row, mask=there, other=0))
    verifies = wish >= _PLAIN
    count = tl.where(verifies, tl.where(wish == _PLAIN, 1, tl.minimum(have + 1, queries)), drafts.to(tl.int32))
    end = tl.cumsum(count, 0)
    first = end - count
    count = tl.where(end <= total, count, 0)
    begin = last + tl.where(drafts, have, 0)
    if token == 0:
        # Rows without a token may begin behind the last one, and kernels read there before they know.
        tl.store(firsts + row, tl.minimum(first, total - 1), mask=there)
        tl.store(counts + row, tl.where(verifies, count, 0), mask=there)
        tl.store(full + row, tl.where(verifies & (count > 0), begin + count, 0), mask=there)
        tl.store(recalled + row, tl.where(drafts & (count > 0), begin + 1, 0), mask=there)
    mine = (first <= token) & (token < first + count)
    real = tl.sum(mine.to(tl.int32), 0) > 0
    owner = tl.sum(tl.where(mine, row, 0), 0)
    position = tl.minimum(tl.sum(tl.where(mine, begin + token - first, 0), 0), tokens_stride - 1)
    page = tl.load(table + owner * table_stride + position // PAGE).to(tl.int64)
    own = tl.where(real, tl.load(tokens + owner.to(tl.int64) * tokens_stride + position), 0)
    tl.store(ids + token, own)
    tl.store(positions + token, position.to(tl.int64))
    tl.store(slots + token, tl.where(real, page * PAGE + position % PAGE, -1))
    tl.store(owners + token, tl.where(real, owner, -1))
    embed(embedding, own, embedded, token, HIDDEN, BLOCK)


@dataclass(frozen=True, slots=True)
class MixedFed:
    """The tokens of a mixed step of B rows."""

    fed: Fed
    """The [N] tokens; `counts` and `lengths` are those of rows that read everything, 0 for the others."""
    recalled: Tensor
    """[B] int32: the lengths of rows that draft, their token counted in; 0 for the others."""
    ragged: Ragged


def feed_mixed(
    tokens: Tensor, length: Tensor, drafted: Tensor, limit: Tensor, active: Tensor, want: Tensor, table: Tensor,
    embedding: Tensor, count: int, queries: int, page_size: int,
) -> MixedFed:  # fmt: skip
    """`count` tokens: what each of B rows wants (`Want`), row after row, and padding.

    `want` [B] int32; the rest as in `rows.feed`. A row verifies at most `queries` tokens, its last committed one
    counted in; one that wants to draft without room for it is idle. Rows whose tokens do not all fit are idle: the
    caller makes room for all that may come.
    """
    rows, hidden, device = tokens.shape[0], embedding.shape[1], tokens.device
    ids, positions, slots = parted(3, count, torch.int64, device)
    firsts, counts, full, recalled = parted(4, rows, torch.int32, device)
    owners = torch.empty(count, dtype=torch.int32, device=device)
    embedded = torch.empty(count, hidden, dtype=embedding.dtype, device=device)
    _mixed_kernel[(count,)](
        tokens, length, drafted, limit, active, want, table, embedding, ids, positions, slots, owners, firsts, counts,
        full, recalled, embedded, rows, count, queries, tokens.stride(0), table.stride(0),
        ROWS=padded(rows, LANES), PAGE=page_size, HIDDEN=hidden, BLOCK=padded(hidden), num_warps=4,
    )  # fmt: skip
    return MixedFed(Fed(ids, positions, slots, full, embedded, counts), recalled, Ragged(firsts, owners))
