"""What drafts bring to texts: tokens a step, of each text that is being written, and from text to text.

Texts differ: one that repeats itself takes eight draft tokens in a step, another none in a hundred. So a new one is
taken to be as those before it, and what its own steps bring takes that guess's place, the sooner the more the texts
before it differed (empirical Bayes; accepted tokens are taken to be geometric, with a mean of the text's own, and a
guess that is worth some steps). Counts of tokens are kept, no text; they outlive a request, as prices of steps do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, log

HOPED = 2.0
"""Draft tokens of a step that are thought to be accepted, until enough texts were seen."""
ENOUGH = 4
"""Texts that say what the next is like."""
SEEN = 16
"""Steps of a text that are remembered, and are enough: then what came before them says nothing of it."""
KEEP = 0.98
"""Of what is known of texts, at each that ends: some fifty count."""
HINTED = 1.0
"""Steps that a hint is worth."""
LEAST, MOST = 0.5, float(SEEN)
"""Steps that the guess for a new text is worth."""


@dataclass(slots=True)
class _Text:
    """One that is being written."""

    last: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=SEEN))
    """Of its last steps: for how many each stands, and the draft tokens that those accepted."""
    seen: int = 0
    steps: float = 0.0
    accepted: float = 0.0
    hint: float = 0.0
    """Draft tokens a step that the text itself says would be accepted, once it has said that they are more than was
    expected."""
    since: int = 0
    """How many steps had been seen then: they say nothing any more."""
    deaf: int = 0
    """Hints that are not listened to, as the last one was tried."""
    patience: int = 1
    """How many those will be the next time."""

    def add(self, accepted: int, steps: float) -> None:
        """One more step with drafts, which stands for so many."""
        self.last.append((steps, steps * accepted))
        self.seen += 1
        self.steps += steps
        self.accepted += steps * accepted

    @property
    def own(self) -> int:
        """How many of the last steps say what it is like now."""
        return min(self.seen - self.since, len(self.last))

    @property
    def lately(self) -> float:
        """Draft tokens a step that those accepted, of which there has to be one."""
        last = list(self.last)[-self.own :]
        return sum(accepted for _, accepted in last) / sum(steps for steps, _ in last)

    def take(self, hint: float, expected: float) -> None:
        """The text says that so many would be accepted where so many are expected."""
        if self.hint and self.seen == self.since:
            self.hint = hint  # nobody has tried yet
        elif self.deaf:
            self.deaf -= 1
        elif hint > expected:
            self.hint, self.since = hint, self.seen
            self.deaf, self.patience = self.patience, 2 * self.patience


class Texts:
    """Those of one engine, by their requests' numbers."""

    def __init__(self) -> None:
        self._running: dict[int, _Text] = {}
        self._ended = 0
        self._weight = self._first = self._second = self._error = 0.0
        """Over texts that have ended, weighted by how much is known of each: sums of one, of accepted tokens a step, of
        their squares, and of the variance with which they were measured."""

    def knows(self, number: int) -> bool:
        """Whether a step with drafts has written of a text."""
        text = self._running.get(number)
        return text is not None and text.seen > 0

    def learn(self, number: int, tokens: int, steps: float = 1.0) -> None:
        """A step with drafts wrote so many tokens of a text, the target's own among them, or would have; `steps`: it
        stands for so many (one of a few that were looked at)."""
        self._text(number).add(tokens - 1, steps)

    def hint(self, number: int, accepted: float) -> None:
        """A text repeats itself so much now that about so many draft tokens a step would be accepted of it. Where that
        is more than was expected, its own steps count from here on, and this is what is expected until they say more;
        hints of a text whose steps were no such thing are listened to ever more seldom."""
        self._text(number).take(accepted, self._expected(number)[0] - 1)

    def keep(self, numbers: Iterable[int]) -> None:
        """All others have ended."""
        for number in self._running.keys() - set(numbers):
            text = self._running.pop(number)
            if text.seen:
                self._end(text)

    def tokens(self, numbers: Sequence[int], *, fair: bool = False) -> tuple[float, float]:
        """What a step with drafts is expected to write of all these texts, and the error of that.

        `fair`: as many tokens as if all texts had the geometric mean of what each is expected to get.
        """
        found = [self._expected(number) for number in numbers]
        if fair:
            whole = len(found) * exp(sum(log(mean) for mean, _ in found) / len(found))
            return whole, whole / len(found) * sum(variance / mean**2 for mean, variance in found) ** 0.5
        return sum(mean for mean, _ in found), sum(variance for _, variance in found) ** 0.5

    def _expected(self, number: int) -> tuple[float, float]:
        """Tokens that a step writes of a text, and their variance as far as that is not known."""
        guess, worth = self.guess
        text = self._running.get(number)
        if text and text.hint:
            guess, worth = text.hint, HINTED
        seen = text.own if text else 0
        counted = worth * (1 - seen / SEEN)
        steps = seen + counted
        accepted = ((seen * text.lately if text and seen else 0.0) + counted * guess) / steps
        return 1 + accepted, accepted * (1 + accepted) / steps

    @property
    def guess(self) -> tuple[float, float]:
        """Draft tokens a step that a new text is thought to accept, and how many of its steps that is worth: the
        variance of a step over that of texts."""
        if self._ended < ENOUGH:
            return HOPED, 1.0
        mean = self._first / self._weight
        spread = (self._second - self._error) / self._weight - mean**2
        return mean, min(max(mean * (1 + mean) / max(spread, 1e-9), LEAST), MOST)

    def _text(self, number: int) -> _Text:
        if number not in self._running:
            self._running[number] = _Text()
        return self._running[number]

    def _end(self, text: _Text) -> None:
        guess, worth = self.guess
        mean, weight = text.accepted / text.steps, text.seen / (text.seen + worth)
        error = guess * (1 + guess) / text.seen
        added = (weight, weight * mean, weight * mean**2, weight * error)
        sums = (self._weight, self._first, self._second, self._error)
        self._weight, self._first, self._second, self._error = (
            KEEP * old + new for old, new in zip(sums, added, strict=True)
        )
        self._ended += 1
