"""Do verify rows pick what plain steps pick? Every position judged by teacher-forcing the plain text.

A difference is a near tie when the scores log p + noise of both tokens, by the verify row's logits, are no further
apart than twice what the two paths' logits differ by near the top (99 of 100 positions), over the temperature. A pick
that one path's truncation cuts off counts by the same scores.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from glimpse.sampling.noise import Role, gumbel

_TOP = 50
"""Logits near the top that are compared."""
_BLOCKS = 3
"""Verifications judged a row."""


class Forced(Protocol):
    """Rows that can be fed a given text."""

    @property
    def seeds(self) -> Tensor:
        """[rows] int64."""

    def text(self, tokens: int) -> tuple[Tensor, Tensor]:
        """([rows, width] prompts and `tokens` plain tokens behind them, [rows] lengths of the prompts)."""

    def step(self, queries: int, text: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """(logits [rows, queries, vocab], picks [rows, queries]) of a step that reads the last token before `start`
        [rows] and the queries - 1 behind it.
        """


def judge(forced: Forced, drafts: int, temperature: float, blocks: int = _BLOCKS) -> dict[str, Any]:
    """Counts and margins over blocks * (drafts + 1) positions a row."""
    queries, found = drafts + 1, []
    text, begin = forced.text(blocks * queries)
    for start in range(0, blocks * queries, queries):
        together, picked = forced.step(queries, text, begin + start)
        for node in range(queries):
            length = begin + start + node
            alone, own = forced.step(1, text, length)
            pair = (alone[:, 0], together[:, node]), (own[:, 0], picked[:, node])
            found.append(_compare(forced.seeds, *pair, length, temperature))
    differ, margins, moved = (torch.cat(parts) for parts in zip(*found, strict=True))
    limit = 2 * float(moved.quantile(0.99)) / (temperature or 1.0)
    margins = margins[differ]
    return {
        "positions": len(differ), "differ": len(margins), "within": int((margins <= limit).sum()), "limit": limit,
        "margins": sorted(margins.tolist()), "logits_differ_median": float(moved.median()),
        "logits_differ_p99": float(moved.quantile(0.99)), "logits_differ_most": float(moved.max()),
    }  # fmt: skip


def _compare(
    seeds: Tensor, logits: tuple[Tensor, Tensor], picks: tuple[Tensor, Tensor], length: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """([rows] picks differ, [rows] margin of the scores, [rows] largest difference among the top logits).

    `logits` [rows, vocab] and `picks` [rows] are those of a step for one token and of a verify row.
    """
    alone, together = logits
    ids = alone.topk(min(_TOP, alone.shape[-1]), -1).indices
    moved = (alone.gather(1, ids) - together.gather(1, ids)).abs().amax(-1)
    both = torch.stack(picks, 1)
    values = together.gather(1, both)
    if temperature > 0:
        # The token picked after the last one of a prefix of `length` tokens stands at that position.
        values = values / temperature + gumbel(seeds, length.long(), Role.TARGET, 0, both)
    return picks[0] != picks[1], (values[:, 0] - values[:, 1]).abs(), moved
