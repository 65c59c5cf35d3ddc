"""Which rows take a fast step, on the device: Slow-Fast Inference's boundaries, found by the newest token's id.

`pacing.boundary` says the same on the host; here the next step need not wait for the last one to be read.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.mixed import Want

UNREAD = tl.constexpr(-1)
"""Fast steps of a row whose prompt has been read, and whose first token has not been written."""
_DRAFT, _PLAIN = tl.constexpr(int(Want.DRAFT)), tl.constexpr(int(Want.PLAIN))
_ADD, _ANEW = tl.constexpr(int(Want.ADD)), tl.constexpr(int(Want.ANEW))


@triton.jit(do_not_specialize=["most"])
def _pace_kernel(
    ids: tl.tensor,
    lengths: tl.tensor,
    limit: tl.tensor,
    since: tl.tensor,
    ends: tl.tensor,
    fast: tl.tensor,
    full: tl.tensor,
    recalled: tl.tensor,
    learned: tl.tensor,
    most: tl.tensor,
) -> None:
    row = tl.program_id(0)
    length, steps = tl.load(lengths + row), tl.load(since + row)
    due = (steps == UNREAD) | (steps >= most) | (tl.load(ends + tl.load(ids + row)) != 0)
    # The last token that a row may write comes of a slow step.
    skips = ((length > 0) & (length + 1 < tl.load(limit + row)) & (due == 0)).to(tl.int32)
    tl.store(fast + row, skips)
    tl.store(full + row, length * (1 - skips))
    tl.store(recalled + row, length * skips)
    # A prompt's own queries have chosen the first set, its last one among them.
    tl.store(learned + row, length * (1 - skips) * (steps != UNREAD).to(tl.int32))


def pace(
    ids: Tensor, lengths: Tensor, limit: Tensor, since: Tensor, ends: Tensor, most: int,
    out: tuple[Tensor, Tensor, Tensor, Tensor],
) -> None:  # fmt: skip
    """Shares the rows out: `out` is (fast, full, recalled, learned), [B] int32 each.

    `fast`: 1 for a fast step; `full`, `recalled`: the `lengths` [B] int32 (0: idle) of slow and of fast rows;
    `learned`: of slow rows whose step chooses a set. A step is slow where the row's newest token, `ids` [B] int64, is
    one of the `ends` [vocab] uint8, after `most` fast ones (`since` [B] int32), and where there is no room behind it
    (`limit` [B] int32).
    """
    _pace_kernel[(len(lengths),)](ids, lengths, limit, since, ends, *out, most, num_warps=1)


@triton.jit(do_not_specialize=["most"])
def _passed_kernel(
    lengths: tl.tensor,
    fast: tl.tensor,
    broken: tl.tensor,
    since: tl.tensor,
    learned: tl.tensor,
    base: tl.tensor,
    judged: tl.tensor,
    most: tl.tensor,
) -> None:
    row = tl.program_id(0)
    steps, skips, sound = tl.load(since + row), tl.load(fast + row), tl.load(broken + row) == 0
    # Whether it is the set that made a row's logits not finite, a slow step shows.
    after = tl.where(skips > 0, tl.where(sound, steps + 1, most), 0)
    tl.store(since + row, tl.where(tl.load(lengths + row) > 0, after, steps))
    tl.store(judged + row, skips)
    known = tl.where(sound, tl.load(learned + row), 0)
    tl.store(learned + row, known)
    tl.store(base + row, tl.where(known > 0, known, tl.load(base + row)))


def passed(
    lengths: Tensor, fast: Tensor, broken: Tensor, since: Tensor, learned: Tensor, base: Tensor, judged: Tensor,
    most: int,
) -> None:  # fmt: skip
    """After a step was committed: counts fast steps, notes them in `judged`, moves the `base` of rows that learned.

    [B] int32 all. Rows that are `broken` learn nothing; a fast one is to step slowly next.
    """
    _passed_kernel[(len(lengths),)](lengths, fast, broken, since, learned, base, judged, most, num_warps=1)


@triton.jit(do_not_specialize=["most", "tokens_stride"])
def _bound_kernel(
    tokens: tl.tensor,
    length: tl.tensor,
    drafted: tl.tensor,
    active: tl.tensor,
    limit: tl.tensor,
    since: tl.tensor,
    ends: tl.tensor,
    want: tl.tensor,
    tokens_stride: tl.tensor,
    most: tl.tensor,
) -> None:
    row = tl.program_id(0)
    have, last = tl.load(drafted + row), tl.load(length + row) - 1
    newest = tl.minimum(tl.maximum(last + have, 0), tokens_stride - 1)
    token = tl.load(tokens + row.to(tl.int64) * tokens_stride + newest)
    due = (have >= most) | (tl.load(ends + token) != 0) | (last + have + 2 >= tl.load(limit + row))
    wish = tl.where(due, _ANEW, _DRAFT)
    wish = tl.where(tl.load(since + row) == UNREAD, _PLAIN, wish)
    tl.store(want + row, wish * tl.load(active + row))


def bound(
    tokens: Tensor, length: Tensor, drafted: Tensor, active: Tensor, limit: Tensor, since: Tensor, ends: Tensor,
    most: int, want: Tensor,
) -> None:  # fmt: skip
    """What each row wants (`Want`, [B] int32) where drafts are verified at boundaries: ANEW where the newest token,
    drafted or committed, is one of the `ends`, after `most` drafts, and where there is no room for another; else DRAFT.

    PLAIN of a row that has not written a token (`since`). `tokens` [B, width] int64; the rest [B] int32.
    """
    _bound_kernel[(len(length),)](
        tokens, length, drafted, active, limit, since, ends, want, tokens.stride(0), most, num_warps=1
    )


@triton.jit
def _learned_kernel(
    want: tl.tensor,
    counts: tl.tensor,
    broken: tl.tensor,
    scored: tl.tensor,
    known: tl.tensor,
    since: tl.tensor,
    learned: tl.tensor,
    base: tl.tensor,
) -> None:
    row = tl.program_id(0)
    wrote, wish = tl.load(counts + row) > 0, tl.load(want + row)
    # A row that broke takes a plain step, to show whether it was the draft.
    after = tl.where(wrote, 0, tl.load(since + row))
    tl.store(since + row, tl.where(tl.load(broken + row) > 0, UNREAD, after))
    length = tl.where((wish >= _ADD) & (tl.load(known + row) > 0) & wrote, tl.load(scored + row), 0)
    tl.store(learned + row, length)
    tl.store(base + row, tl.where(length > 0, length, tl.load(base + row)))


def learned_at(
    want: Tensor, counts: Tensor, broken: Tensor, scored: Tensor, known: Tensor, since: Tensor, learned: Tensor,
    base: Tensor,
) -> None:  # fmt: skip
    """After a step of `bound` rows was committed: writes what those that verified have `learned`, and their `base`.

    [B] int32 all, as `commit` leaves them: the positions that were `scored` are those before the tokens verified.
    """
    _learned_kernel[(len(want),)](want, counts, broken, scored, known, since, learned, base, num_warps=1)
