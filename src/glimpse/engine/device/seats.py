"""Which request decodes in which device row: the rows taken are always the first ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from glimpse.cache.rows import Rows
from glimpse.cache.sequence import Sequence
from glimpse.engine.device.choose import settings_of
from glimpse.engine.device.core import Core
from glimpse.engine.device.mail import upload
from glimpse.engine.device.state import DeviceRows
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

    def sit(self, seat: Seat, rows: Rows) -> None:
        """Gives a request whose prompt has been read the next row; its importance lies in that row of the recall."""
        row, core = len(self.taken), self._core
        device, length = core.rows, seat.request.length
        self.taken.append(seat)
        device.tokens[row, :length] = upload(rows.tokens[seat.slot, :length], device.tokens.device)
        pages = torch.tensor(seat.sequence.pages, dtype=torch.int32)
        device.table[row, : len(pages)] = upload(pages, device.table.device)
        device.length[row], device.drafted[row], device.limit[row] = length, 0, seat.request.limit
        self._set(device, row, seat.request)
        core.version += 1
        if core.trust:
            core.trust.begin(row, length)
        elif core.drafts:
            core.begin(row, length)
        device.active[row] = 1

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

    def _set(self, device: DeviceRows, row: int, request: Request) -> None:
        params, held = request.params, device.settings
        numbers = settings_of(params.temperature, params.top_k, params.top_p, params.min_p)
        targets = (held.temperature, held.top_k, held.top_p, held.log_min_p)
        for target, number in zip(targets, numbers, strict=True):
            target[row] = number
        device.seeds[row] = to_int64(params.seed)
