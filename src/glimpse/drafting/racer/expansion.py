"""The logits tree for all rows at once, on the device that holds their tables, without waiting for it.

Its shape is known beforehand: where every token has all its successors, the breadth rule gives the same tree whatever
the tokens are. So a level is two gathers, and missing successors are left out at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.drafting.racer.merging import BREADTH


@dataclass(frozen=True, slots=True)
class Shape:
    """The breadth rule's tree of `n` nodes, breadth first; see `racer.merging`."""

    parents: Tensor
    """[n] -1 is the last committed token."""
    ranks: Tensor
    """[n] which successor of its parent a node is."""
    levels: tuple[int, ...]
    """Bounds of the depths' nodes: depth d + 1 is `levels[d]` up to `levels[d + 1]`."""

    @classmethod
    def of(cls, nodes: int, device: torch.device | str = "cpu", breadth: int = BREADTH) -> Shape:
        """The first `nodes` nodes below a token of `breadth` children."""
        found = [(-1, 0, breadth, 0)]  # parent, rank, breadth, depth
        place = 0
        while len(found) <= nodes:
            _, _, wide, depth = found[place]
            halved = 0 if place == 0 else 1
            children = [
                (place - 1, rank, max(1, wide >> (rank + halved)), depth + 1) for rank in range(min(wide, BREADTH))
            ]
            found += children
            place += 1
        del found[nodes + 1 :]
        depths = [entry[3] for entry in found[1:]]
        levels = (0, *(index for index in range(1, nodes) if depths[index] != depths[index - 1]), nodes)
        columns = ([entry[column] for entry in found[1:]] for column in (0, 1))
        parents, ranks = (torch.tensor(column, dtype=torch.int64, device=device) for column in columns)
        return cls(parents, ranks, levels)


def expand(successors: Tensor, chances: Tensor, last: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """Tokens [R, n] (int64) and probabilities [R, n] of the shape's nodes, 0 for a node that is not there.

    `successors` and `chances` [R, ids, 8] are the rows' tables, `last` [R] (int64) their last committed tokens.
    """
    rows = torch.arange(len(last), device=last.device)[:, None]
    tokens = torch.zeros(len(last), len(shape.ranks) + 1, dtype=torch.int64, device=last.device)
    reach = torch.ones(tokens.shape, device=last.device)
    tokens[:, 0] = last
    for begin, end in zip(shape.levels, shape.levels[1:], strict=False):
        above, ranks = shape.parents[begin:end] + 1, shape.ranks[begin:end]
        tokens[:, begin + 1 : end + 1] = successors[rows, tokens[:, above], ranks]
        reach[:, begin + 1 : end + 1] = chances[rows, tokens[:, above], ranks] * reach[:, above]
    return tokens[:, 1:], reach[:, 1:]


def first(tokens: Tensor, reach: Tensor, shape: Shape, budget: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first `budget` nodes that are there, closed up: tokens, parents, probabilities [R, budget] and counts [R].

    Behind a row's count stand zeros. A shape of more nodes than the budget leaves room for missing ones.
    """
    there = reach > 0
    places = torch.cumsum(there, 1) - 1
    kept = there & (places < budget)
    slots = torch.where(kept, places, budget)
    parents = torch.where(shape.parents < 0, -1, places[:, shape.parents.clamp(min=0)])
    compact = [
        torch.zeros(len(tokens), budget + 1, dtype=values.dtype, device=tokens.device).scatter_(1, slots, values)
        for values in (tokens, parents, reach)
    ]
    return compact[0][:, :budget], compact[1][:, :budget], compact[2][:, :budget], kept.sum(1)
