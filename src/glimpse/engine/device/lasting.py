"""Whether drafts that the device makes are worth their steps: asked seldom, where prices decide more than texts do.

Drafts from the host are a matter of texts (`Asking`): how much one repeats itself is what they live on.
How long a step with masks takes over a plain one is the same for all texts, and a try costs a step that only makes
blocks. So tries here are longer, the rests between them as long as they are dear, and go on while requests come and go.
"""

from __future__ import annotations

import math
from collections import Counter

from glimpse.engine.device.asking import FIRST, KNOWN, LOOK, TRIES, Asking, _Size
from glimpse.engine.device.settle import Launched

LONGEST = 4096
"""Plain steps of a rest, at most."""
YOUNG = 64
"""Steps with drafts of a size of batch up to which they have the benefit of the doubt: what a few of them brought says
little, and this is paid for once."""
KEPT = 240
"""Steps with drafts that pay until plain ones are looked at again: texts grow, and others come."""


class LastingAsking(Asking):
    """`Asking` with tries of several steps, which cost a share of the time at most where they bring nothing."""

    def __init__(self, tries: int, share: float) -> None:
        """`tries`: steps with drafts between two rests; `share`: what they may cost of the time."""
        super().__init__()
        self._tries, self._share = tries, share
        self._size_now = 0
        """Which size of batch runs."""
        self._kept, self._tried = Counter[int](), Counter[int]()
        """Steps with drafts, by size of batch: since plain ones were seen, and all."""
        self._rests = Counter[int]()
        """What is left of the rest of batches of another size."""

    @property
    def tried(self) -> int:
        """Steps with drafts so far."""
        return self._tried.total()

    def rests(self, rows: tuple[int, ...]) -> bool:
        """Whether the next step of these rows is plain, whoever came or went."""
        size = len(rows).bit_length()
        return (self._rest if size == self._size_now else self._rests[size]) > 0

    def asks(self, rows: tuple[int, ...]) -> bool:
        """Whether the step that is launched now for these rows should have drafts."""
        asked = super().asks(rows)
        self._tried[self._size_now] += asked
        return asked

    def _turn_to(self, rows: tuple[int, ...], size: _Size) -> None:
        """Requests may come and go; where the batch becomes larger or smaller, what is known of that size holds."""
        turned = len(rows).bit_length()
        if turned != self._size_now:
            self._rests[self._size_now] = self._rest
            self._rest, self._size_now = self._rests[turned], turned
        self._rows = rows

    def _heard(self, launched: Launched, counts: list[int]) -> bool:
        """What a text brought is no matter here, and the host reads none."""
        return True

    def _decide(self, size: _Size) -> None:
        if not size.known:
            self._rest, size.left = LOOK, TRIES
            return
        size.left = self._tries
        speed = size.asked.rate / size.plain.rate * (1 + self._doubt(size))
        if speed < 1:
            self._rest = self._dear(size, speed)
            return
        self._kept[self._size_now] += self._tries
        if self._kept[self._size_now] >= KEPT:
            self._kept[self._size_now], self._rest = 0, LOOK
            # They hold until as many were told of: where rows never stay that takes hundreds of steps (`Between`), and
            # all of them would be plain.
            size.plain.keep(KNOWN)

    def _doubt(self, size: _Size) -> float:
        """The relative error of what steps with drafts were seen to bring, while few have been."""
        rows, tried = len(self._rows), self._tried[self._size_now]
        accepted = max(0.0, size.asked.rate * size.asked.seconds / rows - 1)
        # Tokens accepted in a row are about geometric; the last 16 steps are remembered.
        error = math.sqrt(accepted * (1 + accepted) / (min(tried, 16) * rows))
        return error / (1 + accepted) if tried < YOUNG else 0.0

    def _dear(self, size: _Size, speed: float) -> int:
        """Steps of a rest that make up for the next tries, as slow as the last ones."""
        lost = self._tries * size.asked.seconds * (1 - speed)
        return min(max(FIRST, math.ceil(lost / (self._share * size.plain.seconds))), LONGEST)
