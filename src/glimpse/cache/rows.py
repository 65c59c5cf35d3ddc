"""The running requests as a struct of arrays: what drafters, pacers and acceptance rules see of them."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glimpse.cache.sequence import Sequence

LEAST = 1e-9
"""A node's chance is taken for no less, so that the running product goes on after it."""


@dataclass(frozen=True, slots=True)
class RowArrays:
    """The arrays of `Rows` as the host's loops take them: of the same memory, as each look at a tensor takes a
    microsecond, and a device may wait for it."""

    tokens: NDArray[np.int64]
    committed: NDArray[np.int64]
    limit: NDArray[np.int64]
    counts: NDArray[np.int64]
    """[R]: `Rows.draft_len`."""
    parents: NDArray[np.int64]
    confidence: NDArray[np.float32]
    entropy: NDArray[np.float32]
    source: NDArray[np.uint8]


class Rows:
    """One slot per running request; arrays over slots, on the host.

    `tokens` [R, width] holds prompt, committed output and, behind `committed_len`, the nodes of the draft, each after
    its parent. Keys and values below `verified_len` were computed under full attention and are final;
    `verified_len <= committed_len` always.
    """

    def __init__(self, slots: int, width: int, drafts: int) -> None:
        """`width` tokens fit a row, drafts included; a draft has at most `drafts` nodes."""

        def integers() -> Tensor:
            return torch.zeros(slots, dtype=torch.int64)

        self.capacity, self.width, self.max_draft = slots, width, drafts
        self.tokens = torch.zeros(slots, width, dtype=torch.int64)
        self.prompt_len, self.committed_len, self.verified_len = integers(), integers(), integers()
        self.draft_len, self.limit = integers(), integers()
        self.draft_entropy = torch.zeros(slots, drafts)
        self.draft_confidence = torch.zeros(slots, drafts)
        """[R, drafts]: the running product up to node i is the drafter's own chance that the text runs through node i:
        of a chain, the chance of each token after the ones before it."""
        self.draft_source = torch.zeros(slots, drafts, dtype=torch.uint8)
        """[R, drafts]: which of the drafter's sources made each node of a draft handed over whole."""
        self._chain = torch.arange(-1, drafts - 1)
        self.draft_parents = self._chain.repeat(slots, 1)
        """[R, drafts] int64: the parent of each draft node (-1: the last committed token); those of a chain at rest."""
        self.branching: set[int] = set()
        """Slots whose draft is a tree; all others' are chains."""
        self.sequences: list[Sequence | None] = [None] * slots
        self.arrays = RowArrays(
            self.tokens.numpy(), self.committed_len.numpy(), self.limit.numpy(), self.draft_len.numpy(),
            self.draft_parents.numpy(), self.draft_confidence.numpy(), self.draft_entropy.numpy(),
            self.draft_source.numpy(),
        )  # fmt: skip

    def open(
        self, slot: int, prompt: SequenceOf[int] | NDArray[np.int64], sequence: Sequence, limit: int,
        output: SequenceOf[int] = (),
    ) -> None:  # fmt: skip
        """Puts a request into `slot`; `limit` is the length (tokens, prompt included) it may reach.

        `output` is what it has written already, if it was here before.
        """
        length = len(prompt) + len(output)
        self.tokens[slot, : len(prompt)] = torch.as_tensor(prompt)
        self.tokens[slot, len(prompt) : length] = torch.tensor(output, dtype=torch.int64)
        self.prompt_len[slot], self.committed_len[slot] = len(prompt), length
        self.verified_len[slot], self.draft_len[slot] = sequence.shared_len, 0
        self.limit[slot] = limit
        self.sequences[slot] = sequence

    def close(self, slot: int) -> None:
        """Empties `slot` and gives its pages back."""
        self.sequence(slot).release()
        self.clear(slot)

    def clear(self, slot: int) -> None:
        """Empties `slot`, whoever gives its pages back."""
        self.sequences[slot] = None
        for array in (self.prompt_len, self.committed_len, self.verified_len, self.limit):
            array[slot] = 0
        self.drop_draft(slot)

    def sequence(self, slot: int) -> Sequence:
        """The page table of the request in `slot`."""
        sequence = self.sequences[slot]
        if sequence is None:
            raise AssertionError(f"row {slot} is empty")
        return sequence

    def free_slots(self) -> list[int]:
        """Slots without a request."""
        return [slot for slot, sequence in enumerate(self.sequences) if sequence is None]

    def add_draft(self, slot: int, token: int, confidence: float, entropy: float) -> None:
        """Appends one draft token to the row's chain."""
        index = int(self.draft_len[slot])
        self.tokens[slot, int(self.committed_len[slot]) + index] = token
        self.draft_confidence[slot, index], self.draft_entropy[slot, index] = confidence, entropy
        self.draft_len[slot] = index + 1

    def put_draft(
        self, slot: int, tokens: Tensor, parents: Tensor, confidence: Tensor, source: Tensor | int = 0
    ) -> None:
        """Gives the row a whole draft of n nodes, each [n] as in `Draft`; no entropy is known of any."""
        begin, count = int(self.committed_len[slot]), len(tokens)
        self.tokens[slot, begin : begin + count] = tokens
        if parents.tolist() != list(range(-1, count - 1)):
            self.draft_parents[slot, :count] = parents
            self.branching.add(slot)
            confidence = _ratios(parents.tolist(), confidence.tolist())
        self.draft_confidence[slot, :count], self.draft_entropy[slot, :count] = confidence, torch.nan
        self.draft_source[slot, :count] = source
        self.draft_len[slot] = count

    def put_branches(
        self, slot: int, spine: int, tokens: Tensor, parents: Tensor, confidence: Tensor, source: Tensor | int = 0
    ) -> None:
        """Replaces the row's draft by a tree whose first `spine` nodes, and their entropies, are its own; else as
        `put_draft`."""
        entropy = self.draft_entropy[slot, :spine].clone()
        self.drop_draft(slot)
        self.put_draft(slot, tokens, parents, confidence, source)
        self.draft_entropy[slot, :spine] = entropy

    def drop_draft(self, slot: int) -> None:
        """Leaves the row without a draft."""
        self.draft_len[slot] = 0
        if slot in self.branching:
            self.branching.remove(slot)
            self.draft_parents[slot] = self._chain

    def tree(self, slot: int) -> Tensor | None:
        """[draft_len] int64: the parents of the row's draft where it branches; None for a chain."""
        return self.draft_parents[slot, : int(self.draft_len[slot])] if slot in self.branching else None

    def commit(self, slot: int, tokens: list[int], verified: int) -> None:
        """Replaces the draft by the committed `tokens`; positions below `verified` now hold final keys and values."""
        begin = int(self.committed_len[slot])
        self.tokens[slot, begin : begin + len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
        self.committed_len[slot] = begin + len(tokens)
        self.verified_len[slot] = verified
        self.drop_draft(slot)


def _ratios(parents: list[int], confidence: list[float]) -> Tensor:
    """[n]: what the running product has to be multiplied by at each node to give the chance of its whole path."""
    reach, ratios, before = [1.0], [], 1.0
    for parent, chance in zip(parents, confidence, strict=True):
        reach.append(max(reach[parent + 1] * chance, LEAST))
        ratios.append(reach[-1] / before)
        before = reach[-1]
    return torch.tensor(ratios)


@lru_cache(64)
def _index(slots: tuple[int, ...]) -> NDArray[np.int64]:
    """Kept: a batch asks for it several times a step, and a device waits."""
    return np.array(slots, np.int64)


@dataclass(frozen=True, slots=True)
class RowView:
    """Some rows, in the order of `slots`; what a component is handed."""

    rows: Rows
    slots: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.slots)

    def pick(self, wanted: list[bool]) -> RowView:
        """The rows whose entry is True."""
        return RowView(self.rows, tuple(slot for slot, keep in zip(self.slots, wanted, strict=True) if keep))

    def rows_of(self, slot: int) -> RowView:
        """One row alone."""
        return RowView(self.rows, (slot,))

    def column(self, array: Tensor) -> list[int]:
        """The rows' entries of one of the integer arrays."""
        return self.numbers(array.numpy())

    def numbers(self, array: NDArray[np.int64]) -> list[int]:
        """The rows' entries of an array [R] of integers, such as `RowArrays` has."""
        # A tensor takes ten times as long to pick a few numbers, an array three times as long to pick a few at once.
        return [array.item(slot) for slot in self.slots]

    @property
    def index(self) -> NDArray[np.int64]:
        """[R]: the slots, for loops over arrays; not to be written to."""
        return _index(self.slots)

    def history(self, slot: int) -> Tensor:
        """[committed_len] int64: prompt and committed output of one row (a view)."""
        return self.rows.tokens[slot, : int(self.rows.committed_len[slot])]
