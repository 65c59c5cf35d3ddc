"""Do verify rows pick what decode rows pick? Every position judged by teacher-forcing the plain text.

A difference is a near tie when the scores log p + noise of both tokens, by the verify row's logits, are no further
apart than twice `MOVE` of the dtype, over the temperature: each of the two tokens' logits may move by that much. A pick
that one path's truncation cuts off counts by the same scores.

    PYTHONPATH=src python3 benchmarks/gpu_ties.py --model demo.gguf --ids ids.npz

measures anew what `MOVE` is to be, on places of the text that no benchmark judges.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_cells import SAMPLED, Cell, read_ids
from torch import Tensor

from glimpse.errors import GlimpseError
from glimpse.model import load_checkpoint
from glimpse.sampling.noise import Role, gumbel

TOP = 50
MOVE = {torch.bfloat16: 0.625}
"""By how much the two paths' top logits may differ: the most that was seen over 672 positions of 4 rows of the demo
model (999 of 1,000: 0.60; median 0.19) and 2,176 of 16 rows of its twin of 8B cost (most 0.375), on an H200, on text
that no benchmark judges. bfloat16 logits there are multiples of 0.125. With 64 rows nothing differed at all."""
ELSEWHERE = 8500
"""Tokens by which the places measured for `MOVE` lie behind those that benchmarks judge: their contexts end before."""


def move_of(dtype: torch.dtype) -> float:
    """`MOVE` of a dtype; raises GlimpseError for one that was never measured."""
    if dtype not in MOVE:
        raise GlimpseError(f"no limit of near ties is set for {dtype}; measure it with benchmarks/gpu_ties.py")
    return MOVE[dtype]


class Watched:
    """A chooser that keeps the logits it was given."""

    def __init__(self, choose: Any) -> None:
        self.choose, self.logits = choose, torch.empty(0)

    def __call__(self, logits: Tensor, positions: Tensor) -> Any:
        self.logits = logits.float()
        return self.choose(logits, positions)


def step(cell: Cell, queries: int, text: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """(logits [rows, queries, vocab], picks [rows, queries]) of a step over the `text` from `start` [rows] on."""
    rounds, rows = cell.batch.rounds, cell.batch.rows
    rows.tokens.copy_(text)
    rows.length.copy_(start)
    rows.active.fill_(1)
    rounds._prepare(queries)
    watched = rounds._choose[queries] = Watched(rounds._choose[queries])  # type: ignore[assignment]
    try:
        rounds._verify(queries, learn=False)
    finally:
        rounds._choose[queries] = watched.choose
    picks = rows.committed[:, :queries].clone()
    return watched.logits.view(cell.rows, queries, -1)[..., : rounds._vocab], picks


def judge(cell: Cell, text: Tensor, gamma: int, temperature: float, blocks: int = 3) -> dict[str, Any]:
    """Counts and margins over blocks * (gamma + 1) positions a row; `text` [rows, width]: tokens of the plain run."""
    cell.batch.rewind()
    begin = cell.batch.rows.length.clone()
    queries, pairs = gamma + 1, []
    for block in range(blocks):
        start = begin + block * queries
        together, picked = step(cell, queries, text, start)
        for node in range(queries):
            alone, own = step(cell, 1, text, start + node)
            both = (alone[:, 0], together[:, node], own[:, 0], picked[:, node])
            pairs.append(compare(cell, *both, start + node, temperature))
    cell.batch.rewind()
    differ = torch.cat([pair[0] for pair in pairs])
    margins = torch.cat([pair[1] for pair in pairs])[differ]
    moved = torch.cat([pair[2] for pair in pairs])
    limit = 2 * move_of(cell.batch.decoder.dtype) / (temperature or 1.0)
    return {
        "positions": len(differ), "differ": int(differ.sum()), "limit": limit,
        "margins": sorted(float(margin) for margin in margins), "within": int((margins <= limit).sum()),
        "logits_differ_median": float(moved.median()), "logits_differ_p99": float(moved.quantile(0.99)),
        "logits_differ_p999": float(moved.quantile(0.999)), "logits_differ_most": float(moved.max()),
    }  # fmt: skip


def compare(
    cell: Cell, alone: Tensor, together: Tensor, own: Tensor, picked: Tensor, length: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """([rows] picks differ, [rows] margin of the scores, [rows] largest difference among the top logits)."""
    ids = alone.topk(TOP, -1).indices
    moved = (alone.gather(1, ids) - together.gather(1, ids)).abs().amax(-1)
    both = torch.stack([own, picked], 1)
    values = together.gather(1, both)
    if temperature > 0:
        # The token picked after the last one of a prefix of `length` tokens stands at that position.
        noise = gumbel(cell.batch.rows.seeds, length.long(), Role.TARGET, 0, both)
        values = values / temperature + noise
    return own != picked, (values[:, 0] - values[:, 1]).abs(), moved


def plain_text(cell: Cell, tokens: int) -> Tensor:
    """[rows, width]: the prompts and about `tokens` plain tokens behind them."""
    cell.batch.rewind()
    for _ in range(tokens):
        cell.batch.rounds.plain()
    text = cell.batch.rows.tokens.clone()
    cell.batch.rewind()
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--context", type=int, default=8000)
    parser.add_argument("--gammas", default="4,8")
    parser.add_argument("--dtypes", default="bfloat16")
    parser.add_argument("--blocks", type=int, default=12, help="verifications judged a row")
    options = parser.parse_args()
    ids, found = np.roll(read_ids(options.ids), -ELSEWHERE), {}
    gammas = [int(gamma) for gamma in options.gammas.split(",")]
    for name in options.dtypes.split(","):
        dtype = getattr(torch, name)
        MOVE[dtype] = float("inf")
        with torch.inference_mode():
            model = load_checkpoint(options.model, dtype=dtype, device="cuda")
            cell = Cell(model, ids, options.context, options.rows, 512, max(gammas))
            text = plain_text(cell, options.blocks * (max(gammas) + 1))
            for gamma in gammas:
                found[f"{name} {gamma}"] = judge(cell, text, gamma, SAMPLED["temperature"], options.blocks)
                print(name, gamma, {key: value for key, value in found[f"{name} {gamma}"].items() if key != "margins"},
                      flush=True)  # fmt: skip
        del cell, model
        torch.cuda.empty_cache()
    (Path(os.environ.get("OUT", ".")) / "moves.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
