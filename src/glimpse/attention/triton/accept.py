"""The walk of `coupled` and `matched` along chains: how much of each draft agrees with the target's picks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.sizes import padded


@triton.jit(do_not_specialize=["queries"])
def _accept_kernel(
    picks: tl.tensor,
    drafts: tl.tensor,
    drafted: tl.tensor,
    accepted: tl.tensor,
    committed: tl.tensor,
    queries: tl.tensor,
    QUERIES_PAD: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    node = tl.arange(0, QUERIES_PAD)
    count = tl.load(drafted + row)
    real = node < tl.minimum(count, queries - 1)
    own = tl.load(picks + row * queries + node, mask=node < queries, other=-1)
    draft = tl.load(drafts + row * (queries - 1) + node, mask=real, other=-1)
    first_wrong = tl.min(tl.where(real & (own == draft), QUERIES_PAD, node), 0)
    agreed = tl.where(count < 0, -1, first_wrong)
    tl.store(accepted + row, tl.maximum(agreed, 0))
    tl.store(committed + row * queries + node, tl.where(node <= agreed, own, -1), mask=node < queries)


def accept_chains(picks: Tensor, drafts: Tensor, drafted: Tensor) -> tuple[Tensor, Tensor]:
    """(accepted [rows] int32, committed [rows, n] int64) of the target's `picks` [rows, n] and `drafts` [rows, n - 1].

    Both int64 and contiguous. `drafted` [rows] int32: how many of a row's drafts are real; negative: the row is idle.
    Committed are the accepted tokens and the target's own after them, then -1.
    """
    rows, queries = picks.shape
    accepted = torch.empty(rows, dtype=torch.int32, device=picks.device)
    committed = torch.empty_like(picks)
    _accept_kernel[(rows,)](
        picks, drafts, drafted, accepted, committed, queries, QUERIES_PAD=padded(queries, 2), num_warps=1
    )
    return accepted, committed
