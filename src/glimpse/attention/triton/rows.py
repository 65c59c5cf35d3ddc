"""What a step does to the rows around its forward: which tokens they feed, what was drafted, what is committed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.sizes import padded, parted, stepped


@triton.jit
def embed(
    embedding: tl.tensor,
    own: tl.tensor,
    embedded: tl.tensor,
    token: tl.tensor,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Copies row `own` (int64) of `embedding` to row `token` of `embedded`."""
    column = tl.arange(0, BLOCK)
    inside = column < HIDDEN
    value = tl.load(embedding + own * HIDDEN + column, mask=inside, other=0.0)
    tl.store(embedded + token.to(tl.int64) * HIDDEN + column, value, mask=inside)


@triton.jit(do_not_specialize=["queries", "tokens_stride", "table_stride"])
def _feed_kernel(
    tokens: tl.tensor,
    length: tl.tensor,
    drafted: tl.tensor,
    limit: tl.tensor,
    active: tl.tensor,
    table: tl.tensor,
    embedding: tl.tensor,
    ids: tl.tensor,
    positions: tl.tensor,
    slots: tl.tensor,
    lengths: tl.tensor,
    counts: tl.tensor,
    embedded: tl.tensor,
    queries: tl.tensor,
    tokens_stride: tl.tensor,
    table_stride: tl.tensor,
    PAGE: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    DRAFTING: tl.constexpr,
    LIMITED: tl.constexpr,
    COUNTED: tl.constexpr,
) -> None:
    token = tl.program_id(0)
    row, query = token // queries, token % queries
    first = tl.load(length + row) - 1
    alive = tl.load(active + row)
    count = queries
    if DRAFTING:
        first += tl.load(drafted + row)
    if LIMITED:
        # The token drafted here would lie at first + 1, and the target adds one of its own behind it.
        alive = alive * (first + 2 < tl.load(limit + row)).to(tl.int32)
    if COUNTED:
        count = tl.minimum(tl.load(drafted + row) + 1, queries)
    # A row that never held anything begins at -1, where there is nothing to read.
    position = tl.maximum(tl.minimum(first + query, tokens_stride - 1), 0)
    page = tl.load(table + row * table_stride + position // PAGE).to(tl.int64)
    own = tl.load(tokens + row.to(tl.int64) * tokens_stride + position)
    tl.store(ids + token, own)
    tl.store(positions + token, position.to(tl.int64))
    tl.store(slots + token, tl.where((alive > 0) & (query < count), page * PAGE + position % PAGE, -1))
    if query == 0:
        tl.store(lengths + row, (first + count) * alive)
        if COUNTED:
            tl.store(counts + row, count)
    embed(embedding, own, embedded, token, HIDDEN, BLOCK)


@dataclass(frozen=True, slots=True)
class Fed:
    """The tokens of one step, of B rows with n queries each."""

    ids: Tensor
    """[B * n] int64."""
    positions: Tensor
    """[B * n] int64."""
    slots: Tensor
    """[B * n] int64; -1 for idle rows, which are not stored."""
    lengths: Tensor
    """[B] int32: the rows' lengths, these tokens counted in; 0 for idle rows."""
    embedded: Tensor
    """[B * n, hidden]."""
    counts: Tensor | None = None
    """[B] int32: how many of its n tokens each row really feeds; None: all."""


def feed(
    tokens: Tensor, length: Tensor, drafted: Tensor | None, active: Tensor, table: Tensor, embedding: Tensor,
    queries: int, page_size: int, *, limit: Tensor | None = None, own: Tensor | None = None,
) -> Fed:  # fmt: skip
    """The next `queries` tokens of every row, from position length - 1 on, or `drafted` further where it is given.

    `tokens` [B, width] int64; `length`, `drafted`, `active`, `limit`, `own` [B] int32; `table` [B, pages] int32;
    `embedding` [vocab, hidden]. Positions beyond the width repeat the last one. With `limit`, rows that may not become
    longer than one more token feed nothing. With `own` (the drafts each row has), a row feeds its last committed token
    and its own drafts only; what is left of its `queries` tokens is padding.
    """
    rows, hidden = tokens.shape[0], embedding.shape[1]
    count, device = rows * queries, tokens.device
    ids, positions, slots = parted(3, count, torch.int64, device)
    lengths, counts = parted(2, rows, torch.int32, device)
    embedded = torch.empty(count, hidden, dtype=embedding.dtype, device=device)
    _feed_kernel[(count,)](
        tokens, length, drafted if own is None else own, limit, active, table, embedding, ids, positions, slots,
        lengths, counts, embedded, queries, tokens.stride(0), table.stride(0), PAGE=page_size, HIDDEN=hidden,
        BLOCK=padded(hidden), DRAFTING=drafted is not None, LIMITED=limit is not None, COUNTED=own is not None,
        num_warps=4,
    )  # fmt: skip
    return Fed(ids, positions, slots, lengths, embedded, None if own is None else counts)


@triton.jit(do_not_specialize=["tokens_stride", "most"])
def _record_kernel(
    tokens: tl.tensor,
    positions: tl.tensor,
    picks: tl.tensor,
    probabilities: tl.tensor,
    entropies: tl.tensor,
    drafted: tl.tensor,
    active: tl.tensor,
    confidence: tl.tensor,
    entropy: tl.tensor,
    firsts: tl.tensor,
    tokens_stride: tl.tensor,
    most: tl.tensor,
    RAGGED: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    token = row
    if RAGGED:
        token = tl.load(firsts + row)
    alive = tl.load(active + row)
    if alive > 0:
        count = tl.load(drafted + row)
        after = tl.load(positions + token) + 1
        tl.store(tokens + row.to(tl.int64) * tokens_stride + after, tl.load(picks + token), mask=after < tokens_stride)
        place = row * most + tl.minimum(count, most - 1)
        tl.store(confidence + place, tl.load(probabilities + token))
        tl.store(entropy + place, tl.load(entropies + token))
        tl.store(drafted + row, count + 1)


def record(
    tokens: Tensor, positions: Tensor, picks: Tensor, probabilities: Tensor, entropies: Tensor, drafted: Tensor,
    active: Tensor, confidence: Tensor, entropy: Tensor, *, ragged: Ragged | None = None,
) -> None:  # fmt: skip
    """Puts a draft token behind `positions` [B] in `tokens` [B, width], its numbers into [B, most], and counts it.

    `ragged`: what the step gave is [N], each row's where that says.
    """
    _record_kernel[(tokens.shape[0],)](
        tokens, positions, picks, probabilities, entropies, drafted, active, confidence, entropy,
        None if ragged is None else ragged.firsts, tokens.stride(0), confidence.shape[1], RAGGED=ragged is not None,
        num_warps=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["queries", "tokens_stride", "committed_stride"])
def _commit_kernel(
    tokens: tl.tensor,
    ids: tl.tensor,
    positions: tl.tensor,
    picks: tl.tensor,
    length: tl.tensor,
    drafted: tl.tensor,
    active: tl.tensor,
    limit: tl.tensor,
    counts: tl.tensor,
    committed: tl.tensor,
    scored: tl.tensor,
    known: tl.tensor,
    own: tl.tensor,
    entropies: tl.tensor,
    judged: tl.tensor,
    broken: tl.tensor,
    loose: tl.tensor,
    relaxed: tl.tensor,
    firsts: tl.tensor,
    queries: tl.tensor,
    tokens_stride: tl.tensor,
    committed_stride: tl.tensor,
    PAD: tl.constexpr,
    COUNTED: tl.constexpr,
    RAGGED: tl.constexpr,
    RELAXED: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    node = tl.arange(0, PAD)
    alive, old = tl.load(active + row), tl.load(length + row)
    fed = queries
    if COUNTED:
        fed = tl.load(own + row)
    first = row * queries
    if RAGGED:
        first = tl.load(firsts + row)
        # A row that verifies nothing stays as it is.
        alive = alive * (fed > 0).to(tl.int32)
    inside = node < fed
    pick = tl.load(picks + first + node, mask=inside, other=-1)
    draft = tl.load(ids + first + node + 1, mask=node < fed - 1, other=-2)
    accepted = tl.min(tl.where(pick == draft, PAD, node), 0)
    count = (accepted + 1) * alive
    # Logits that are not finite have such an entropy. Behind a rejected token plain decoding would not have met them.
    entropy = tl.load(entropies + first + node, mask=node < count, other=0.0)
    sound = tl.min((entropy - entropy == 0).to(tl.int32), 0)
    count = count * sound
    tl.store(broken + row, 1 - sound)
    tl.store(judged + row, (fed - 1) * alive)
    if RELAXED:
        let_pass = tl.load(loose + first + node, mask=inside & (node < accepted), other=0)
        tl.store(relaxed + row, tl.sum(let_pass, 0) * alive * sound)
    place = tl.load(positions + first + node, mask=inside, other=0) + 1
    keep = inside & (node < count) & (place < tokens_stride)
    tl.store(tokens + row.to(tl.int64) * tokens_stride + place, pick, mask=keep)
    tl.store(committed + row * committed_stride + node, pick, mask=inside)
    still = (old + count < tl.load(limit + row)).to(tl.int32)
    tl.store(counts + row, count)
    tl.store(length + row, old + count)
    tl.store(drafted + row, 0, mask=fed > 0)
    tl.store(active + row, tl.load(active + row) * still)
    tl.store(scored + row, old - 1)
    tl.store(known + row, (old + count - 1) * still * alive)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a commit leaves for the host, of B rows."""

    counts: Tensor
    """[B] int32: tokens committed."""
    committed: Tensor
    """[B, most + 1] int64: those tokens."""
    judged: Tensor
    """[B] int32: how many drafted tokens were verified."""
    broken: Tensor
    """[B] int32: 1 where the row met logits that are not finite; it commits nothing then, and loses its draft."""
    relaxed: Tensor
    """[B] int32: accepted tokens that a lossy rule let pass; 0 where there is none."""


def commit(
    tokens: Tensor, fed: Fed, picks: Tensor, entropies: Tensor, length: Tensor, drafted: Tensor, active: Tensor,
    limit: Tensor, verdict: Verdict, *, ragged: Ragged | None = None, queries: int = 0,
    out: tuple[Tensor, Tensor] | None = None, loose: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Keeps the picks [B * n] up to the first that differs from the draft, that one included, and moves the rows on.

    `entropies` [B * n] float32 are those of the laws picked from. A row goes idle where it has reached its limit.
    Returns [B] int32 twice (or writes `out`): the positions below which the last verification scored, and those that
    are final (0 for rows now idle). `ragged`: the picks are [N], each row's where that says, at most `queries` of them;
    rows with a count of 0 are left as they are, with 0 for what is final. `loose` [B * n] int32: which picks are not
    the target's but drafts that a lossy rule lets pass (`relaxing.relax`); they are counted.
    """
    rows, device = tokens.shape[0], tokens.device
    queries = queries or picks.shape[0] // rows
    scored, known = parted(2, rows, torch.int32, device) if out is None else out
    _commit_kernel[(rows,)](
        tokens, fed.ids, fed.positions, picks, length, drafted, active, limit, verdict.counts, verdict.committed,
        scored, known, fed.counts, entropies, verdict.judged, verdict.broken, loose, verdict.relaxed,
        None if ragged is None else ragged.firsts, queries, tokens.stride(0), verdict.committed.stride(0),
        PAD=stepped(queries), COUNTED=fed.counts is not None, RAGGED=ragged is not None,
        RELAXED=loose is not None, num_warps=1,
    )  # fmt: skip
    return scored, known
