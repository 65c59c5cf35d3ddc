"""Draft trees between host and device: what the rows are to verify, and what the host reads of it beside the report."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glimpse.attention.triton.likely import LIKELY
from glimpse.engine.device.state import DeviceRows

VIEWS = 64
"""Numbers of rows, and of tokens, whose parts of the buffers are remembered."""


class TreeState:
    """Buffers of B rows with trees of at most `most` nodes; nothing may be in flight when they are written anew.

    One copy brings the trees there, one brings the paths and the successors back.
    """

    def __init__(self, rows: DeviceRows, *, successors: bool) -> None:
        """`successors`: whether the target's likeliest next tokens after every node are wanted."""
        size, most, device = rows.size, rows.most, rows.tokens.device
        self.recycles = successors
        tokens = size * (most + 1) if successors else 0
        numbers = size * (most + 1) + tokens * 2 * LIKELY
        pinned = device.type == "cuda"
        self._put = torch.zeros(size, 2 * most + 1, dtype=torch.int32, device=device)
        self._put_host = torch.zeros(self._put.shape, dtype=torch.int32, pin_memory=pinned)
        self.sheet = self._put_host.numpy()
        """[B, 2 most + 1] int32, on the host: of each row the tokens of its nodes, their parents, and how many are
        meant."""
        self._block = torch.zeros(numbers, dtype=torch.int32, device=device)
        self._block_host = torch.zeros(numbers, dtype=torch.int32, pin_memory=pinned)
        self._size, self._most = size, most
        # Two views take as long as a copy.
        self._first, self._used = _views(self._put, self._put_host), _views(self._block_host, self._block)
        self._places = torch.arange(most, device=device)
        self._paths_host, self._successors_host = (part.numpy() for part in self._parts(self._block_host))
        self.paths, self.likely = self._parts(self._block)
        """[B, most + 1] int32: the query whose pick each committed token is; query i of a row is its node i - 1.
        [tokens, 16] int32: see `glimpse.attention.triton.likely`."""

    @property
    def parents(self) -> Tensor:
        """[B, most] int32: each node's parent among its row's nodes, parents first; -1: the last committed token."""
        return self._put[:, self._most : 2 * self._most]

    def put(self, rows: int) -> None:
        """Sends the trees that the `sheet` has of the first rows to the device."""
        theirs, own = self._first(rows)
        theirs.copy_(own, non_blocking=True)

    def plant(self, rows: DeviceRows) -> None:
        """Device code: the first rows' trees behind their texts, their sizes into `drafted`."""
        own = self._put[: rows.size]
        # Behind a row's own nodes stands what nobody will read.
        places = (rows.length.long()[:, None] + self._places).clamp_max(rows.tokens.shape[1] - 1)
        rows.tokens.scatter_(1, places, own[:, : self._most].long())
        rows.drafted.copy_(own[:, -1])

    def send(self, tokens: int) -> None:
        """Sends what a step of `tokens` tokens left to the host; to be read once a letter sent later has arrived."""
        used = self.paths.numel() + (tokens * 2 * LIKELY if self.recycles else 0)
        own, theirs = self._used(used)
        own.copy_(theirs, non_blocking=True)

    def paths_of(self, rows: int, most: int) -> list[list[int]]:
        """The accepted nodes of each of the first rows, of the step that was sent last, at most `most` of each; behind
        a row's own stands what nobody reads."""
        nodes: list[list[int]] = (self._paths_host[:rows, 1 : most + 1] - 1).tolist()
        return nodes

    def successors(self, tokens: int) -> NDArray[np.int32]:
        """[tokens, 16]: as `likely`, after each of the step's tokens; a copy."""
        return self._successors_host[:tokens].copy()

    def _parts(self, block: Tensor) -> tuple[Tensor, Tensor]:
        count = self._size * (self._most + 1)
        return block[:count].view(self._size, -1), block[count:].view(-1, 2 * LIKELY)


def _views(first: Tensor, second: Tensor) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Gives the first so many rows of both; remembers those asked for last."""
    return lru_cache(VIEWS)(lambda count: (first[:count], second[:count]))
