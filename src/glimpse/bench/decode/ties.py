"""Do verify rows pick what plain steps pick? Every position judged by teacher-forcing the plain text.

A difference is a near tie when its margin (`bench.judge.distance`: the smallest change of logits, over the temperature,
that turns one pick into the other) is at most twice what the two paths' logits differ by near the top (99 of 100
positions), over the temperature.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from glimpse.bench.decode.cell import params_of
from glimpse.bench.judge import distance
from glimpse.sampling.resolve import resolve

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
    limit = 2 * float(near.quantile(0.99)) / (temperature or 1.0)
    return {
        "positions": len(near), "differ": len(margins), "within": sum(margin <= limit for margin in margins),
        "limit": limit, "margins": sorted(margins), "logits_differ_median": float(near.median()),
        "logits_differ_p99": float(near.quantile(0.99)), "logits_differ_most": float(near.max()),
    }  # fmt: skip


def _moved(alone: Tensor, together: Tensor) -> Tensor:
    """[rows]: the largest difference among the top logits of two paths [rows, vocab]."""
    ids = alone.topk(min(_TOP, alone.shape[-1]), -1).indices
    return (alone.gather(1, ids) - together.gather(1, ids)).abs().amax(-1)
