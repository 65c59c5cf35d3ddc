"""Do verify rows pick what plain steps pick? Every position judged by teacher-forcing the plain text.

A difference is a near tie when its margin (`bench.judge.distance`: the smallest change of logits, over the temperature,
that turns one pick into the other) is at most twice what a logit may move by between the two paths, over the
temperature. How much that is was fixed beforehand for each dtype (`MOVES`).
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from glimpse.bench.decode.cell import params_of
from glimpse.bench.judge import distance
from glimpse.sampling.resolve import resolve

MOVES = {torch.bfloat16: 0.625}
"""By how much a logit near the top may move. bfloat16: the most that was seen over 672 positions of 4 rows of the demo
model (999 of 1,000: 0.60; median 0.19) and 2,176 of 16 rows of its twin of 8B cost (most 0.375), on an H200, at places
of the text that the bench does not judge (benchmarks/gpu_ties.py); logits there are multiples of 0.125."""
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


def judge(
    forced: Forced, drafts: int, temperature: float, blocks: int = _BLOCKS, move: float | None = None
) -> dict[str, Any]:
    """Counts and margins over blocks * (drafts + 1) positions a row.

    `move`: of `MOVES`; None where none was fixed: what 99 of 100 positions of this very run move by.
    """
    queries, moved, margins = drafts + 1, list[Tensor](), list[float]()
    text, begin = forced.text(blocks * queries)
    for start in range(0, blocks * queries, queries):
        together, picked = forced.step(queries, text, begin + start)
        for node in range(queries):
            alone, own = forced.step(1, text, begin + start + node)
            moved.append(_moved(alone[:, 0], together[:, node]))
            for row in (own[:, 0] != picked[:, node]).nonzero().flatten().tolist():
                before = text[row, : int(begin[row]) + start + node].tolist()
                picks = int(own[row, 0]), int(picked[row, node])
                params = resolve(params_of(temperature, int(forced.seeds[row])))
                logits = alone[row].cpu()
                margins.append(distance(logits, before, [], *picks, params, vocab=logits.shape[1]))
    near = torch.cat(moved)
    limit = 2 * (float(near.quantile(0.99)) if move is None else move) / (temperature or 1.0)
    return {
        "positions": len(near), "differ": len(margins), "within": sum(margin <= limit for margin in margins),
        "limit": limit, "limit_fixed": move is not None, "margins": sorted(margins),
        "logits_differ_median": float(near.median()),
        "logits_differ_p99": float(near.quantile(0.99)), "logits_differ_p999": float(near.quantile(0.999)),
        "logits_differ_most": float(near.max()),
    }  # fmt: skip


def _moved(alone: Tensor, together: Tensor) -> Tensor:
    """[rows]: the largest difference among the top logits of two paths [rows, vocab]."""
    ids = alone.topk(min(_TOP, alone.shape[-1]), -1).indices
    return (alone.gather(1, ids) - together.gather(1, ids)).abs().amax(-1)
