"""The running requests as a struct of arrays: what drafters, pacers and acceptance rules see of them."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.cache.sequence import Sequence


class Rows:
    """One slot per running request; arrays over slots, on one device.

    `tokens` [R, width] holds prompt, committed output and, behind `committed_len`, the draft. Keys and values below
    `verified_len` were computed under full attention and are final; `verified_len <= committed_len` always.
    """

    def __init__(self, slots: int, width: int, drafts: int, device: torch.device | str = "cpu") -> None:
        """`width` tokens fit a row, drafts included; a draft has at most `drafts` tokens."""

        def integers() -> Tensor:
            return torch.zeros(slots, dtype=torch.int64, device=device)

        self.capacity, self.width, self.max_draft = slots, width, drafts
        self.tokens = torch.zeros(slots, width, dtype=torch.int64, device=device)
        self.prompt_len, self.committed_len, self.verified_len = integers(), integers(), integers()
        self.draft_len, self.limit = integers(), integers()
        self.draft_entropy = torch.zeros(slots, drafts, device=device)
        self.draft_confidence = torch.zeros(slots, drafts, device=device)
        self.sequences: list[Sequence | None] = [None] * slots

    def open(self, slot: int, prompt: list[int], sequence: Sequence, limit: int, output: SequenceOf[int] = ()) -> None:
        """Puts a request into `slot`; `limit` is the length (tokens, prompt included) it may reach.

        `output` is what it has written already, if it was here before.
        """
        length = len(prompt) + len(output)
        self.tokens[slot, :length] = torch.tensor([*prompt, *output])
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
        for array in (self.prompt_len, self.committed_len, self.verified_len, self.draft_len, self.limit):
            array[slot] = 0

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
        """Appends one draft token to the row."""
        index = int(self.draft_len[slot])
        self.tokens[slot, int(self.committed_len[slot]) + index] = token
        self.draft_confidence[slot, index], self.draft_entropy[slot, index] = confidence, entropy
        self.draft_len[slot] = index + 1

    def commit(self, slot: int, tokens: list[int], verified: int) -> None:
        """Replaces the draft by the committed `tokens`; positions below `verified` now hold final keys and values."""
        begin = int(self.committed_len[slot])
        self.tokens[slot, begin : begin + len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
        self.committed_len[slot] = begin + len(tokens)
        self.verified_len[slot] = verified
        self.draft_len[slot] = 0


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

    def column(self, array: Tensor) -> list[int]:
        """The rows' entries of one of the integer arrays, on the host."""
        values: list[int] = array[list(self.slots)].tolist()
        return values

    def history(self, slot: int) -> Tensor:
        """[committed_len] int64: prompt and committed output of one row (a view)."""
        return self.rows.tokens[slot, : int(self.rows.committed_len[slot])]
