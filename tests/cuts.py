"""Cutting drafts step by step, as `pacing.cutting` does in one loop; which nodes pay may be decided otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from glimpse.cache.rows import RowView
from glimpse.pacing.cutting import Market
from glimpse.pacing.keeping import keep_nodes
from glimpse.pacing.proposals import Floats, Ints, Proposals, Trust, believed
from glimpse.pacing.worth import worthwhile

Choose = Callable[..., list[Ints]]


def right_cut(
    rows: RowView, trusts: Sequence[Trust], market: Market, choose: Choose = worthwhile
) -> tuple[Proposals, list[int]]:
    """What `cut` does; `choose` is asked which nodes are worth verifying."""
    found = Proposals.of(rows)
    gains = found.split(found.along(believed(trusts, found)))
    prices = market.node + market.position * np.array(rows.column(rows.rows.committed_len), np.float64)
    worth = choose(gains, prices, market.rows, (market.start, market.plain), market.extra)
    trees = [slot in rows.rows.branching for slot in rows.slots]
    keep_nodes(rows.pick(trees), [kept for kept, tree in zip(worth, trees, strict=True) if tree])
    return found, [len(kept) for kept in worth]


def cut_to_likeliest(count: int) -> Callable[[RowView, Sequence[Trust], Market], tuple[Proposals, list[int]]]:
    """A cut that leaves so many nodes of each row, whatever they cost."""

    def likeliest(gains: Sequence[Floats], *_: object) -> list[Ints]:
        return [np.argsort(-own, kind="stable")[:count] for own in gains]

    return partial(right_cut, choose=likeliest)
