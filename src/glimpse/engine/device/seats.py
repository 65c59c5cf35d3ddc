"""Which request decodes in which device row: the rows taken are always the first ones."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import torch

from glimpse.cache.rows import Rows
from glimpse.cache.sequence import Sequence
from glimpse.engine.device.choose import settings_of
from glimpse.engine.device.core import Core
from glimpse.engine.device.mail import upload
from glimpse.engine.request import Request
from glimpse.sampling.noise import to_int64


@dataclass(frozen=True, slots=True, eq=False)
class Seat:
    """A running request, with its row and page table on the host's side."""

    request: Request
    slot: int
    sequence: Sequence


class Seats:
    """The seats taken, by device row; a freed row is filled by the last one, its recall sets moving along."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.taken: list[Seat] = []

    def lay(self, seats: SequenceOf[Seat], rows: Rows) -> None:
        """Puts what is known of some requests into the next rows, which stay idle."""
        first, device = len(self.taken), self._core.rows
        for row, seat in enumerate(seats, first):
            length, pages = seat.request.length, torch.tensor(seat.sequence.pages, dtype=torch.int32)
            device.tokens[row, :length] = upload(rows.tokens[seat.slot, :length], device.tokens.device)
            device.table[row, : len(pages)] = upload(pages, device.table.device)
        self._set(slice(first, first + len(seats)), [seat.request for seat in seats])
        self._core.version += 1

    def sit(self, seats: SequenceOf[Seat], scored: SequenceOf[int] | None) -> None:
        """Has requests begin in the rows that they were laid into: their prompts have been read, and the importance of
        the positions below `scored` lies in those rows of the recall; None: of none, and there will be no drafts of
        these rows before a step that learns anew."""
        first, core, lengths = len(self.taken), self._core, [seat.request.length for seat in seats]
        self.taken += seats
        if core.trust:
            for row, length in enumerate(lengths, first):
                core.trust.begin(row, length)
        elif core.drafts and scored is not None:
            core.begin(first, scored, [length - 1 for length in lengths])
        core.rows.active[first : first + len(seats)] = 1

    def extend(self, row: int, length: int) -> None:
        """Gives a row the pages for `length` tokens, if it has not got them."""
        sequence, table = self.taken[row].sequence, self._core.rows.table
        have = len(sequence.pages)
        sequence.reserve(length)
        if len(sequence.pages) > have:
            more = torch.tensor(sequence.pages[have:], dtype=torch.int32)
            table[row, have : have + len(more)] = upload(more, table.device)

    def leave(self, seat: Seat) -> None:
        """Frees a request's row."""
        row, last = self.taken.index(seat), len(self.taken) - 1
        if row == last:
            self._core.rows.active[row] = 0
        else:
            self._core.rows.move(last, row)
            if self._core.drafts:
                self._core.recall.move(last, row)
            if self._core.trust:
                self._core.trust.move(last, row)
            self.taken[row] = self.taken[last]
            self._core.version += 1
        self.taken.pop()

    def _set(self, own: slice, requests: SequenceOf[Request]) -> None:
        """The numbers of rows `own`, one copy for each of them."""
        device, params = self._core.rows, [request.params for request in requests]
        held, each = device.settings, [settings_of(of.temperature, of.top_k, of.top_p, of.min_p) for of in params]
        numbers = zip((held.temperature, held.top_k, held.top_p, held.log_min_p), zip(*each, strict=True), strict=True)
        columns = [
            *numbers,
            (device.seeds, [to_int64(of.seed) for of in params]),
            (device.length, [request.length for request in requests]),
            (device.limit, [request.limit for request in requests]),
        ]
        for target, values in columns:
            target[own] = upload(torch.tensor(values, dtype=target.dtype), target.device)
        device.drafted[own] = 0
