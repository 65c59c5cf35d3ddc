"""When to ask the host for drafts where shadows watch the rests (`Shadows`): tries are made for prices alone.

What drafts would bring is known without a try, of each text, so a rest ends when that looks worth it, and no text has
the benefit of the doubt. What a step with drafts takes is known from such steps only: lengths and graphs change, so now
and then some are made all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glimpse.drafting.reader import late_of
from glimpse.engine.device.asking import KNOWN, TRIES, Asking, _Size
from glimpse.engine.parts import Parts
from glimpse.pacing.marginal import MarginalPacer

SHARE, FAIR_SHARE = 0.005, 0.002
"""Of the time that tries cost, at most: a rest is as long as that takes. Prices change over thousands of steps (texts
grow, graphs are captured), and half of a hundredth is what a plain step differs by from one run to the next. Where
callers follow their texts it is less: on a server that is busy four fifths of the time, each of them waits for five
times what is lost."""
FIRST_SHARE = 0.02
"""The same while a size of batch has no price of its own."""
CLEAR = 1.1
"""Speed of drafts over plain decoding that is expected where a rest ends. Replayed (docs/auto.md): 1.05 loses more
where steps with drafts are dear, 1.2 gains less where they are cheap."""
LONGEST, FAIR_LONGEST = 4096, 16384
"""Plain steps of a rest, at most."""


class WatchedAsking(Asking):
    """`Asking` that shadows tell of what drafts would bring."""

    doubts = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._late = 0
        """Steps that the next try may still be put off, until all texts have been read for it."""

    def foretold(self, number: int, tokens: int, passed: int) -> None:
        """A step with drafts would have written so many tokens of a text at once, of `passed` that came since; it
        stands for those that would have been made meanwhile."""
        self._texts.learn(number, tokens, passed / tokens)
        self._look()

    def _look(self) -> None:
        """Ends a rest where that looks worth it now."""
        size = self._size(len(self._rows))
        if self.resting and len(size.plain.times) >= KNOWN and self._wakes():
            self._rest, size.left = 0, TRIES

    def hinted(self, found: Mapping[int, float]) -> None:
        """Of these requests' texts steps with drafts would accept about so many draft tokens, by what they repeat."""
        for number, accepted in found.items():
            self._texts.hint(number, accepted)
        self._look()

    def asks(self, rows: tuple[int, ...]) -> bool:
        """Whether the step that is launched now for these rows should have drafts."""
        asked = super().asks(rows)
        if not asked and not self.resting and self._late and not self._knows(rows):
            self._rest, self._late = 1, self._late - 1
        return asked

    def _pause(self, size: _Size, loss: float) -> int:
        """As long as tries take that bring nothing."""
        share, longest = (FAIR_SHARE, FAIR_LONGEST) if self.fair else (SHARE, LONGEST)
        lost = max(loss, (self._price(len(self._rows)) or 1.0) - 1)
        self._late = min(longest, int(max(TRIES * lost, self._lost) / (share if size.known else FIRST_SHARE)))
        return max(KNOWN, self._late)

    def _wakes(self) -> bool:
        """Whether drafts clearly pay: what they bring to few steps is soon past."""
        speed = self.speed(self._rows)
        return speed is None or speed >= CLEAR

    def _knows(self, rows: Sequence[int]) -> bool:
        """Whether all these texts have been looked at."""
        return all(map(self._texts.knows, rows))


def asking_of(parts: Parts) -> Asking:
    """For these parts: shadows watch where texts are read late (`LateDrafter`) and nodes are priced."""
    watched = late_of(parts.drafter) is not None and isinstance(parts.pacer, MarginalPacer)
    return WatchedAsking() if watched else Asking()
