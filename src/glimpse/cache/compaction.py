"""After a tree was verified: the accepted path's keys and values move to where a chain's would be."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from glimpse.cache.sequence import Sequence


def keep_path(sequence: Sequence, begin: int, path: Iterable[int]) -> None:
    """Moves what lies at positions begin + path[0], begin + path[1], ... to begin, begin + 1, ...

    `path` ascends, as nodes on a path do. What lay at the targets is gone; of what lies behind them nothing is of use.
    """
    moved = [(begin + node, begin + place) for place, node in enumerate(path) if node != place]
    if moved:
        slots = sequence.slots_of(torch.tensor(moved)).to(sequence.pool.device)
        sequence.pool.move(slots[:, 0], slots[:, 1])
