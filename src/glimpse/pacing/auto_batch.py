"""What the rows of a batch know together of who drafts well there."""

from __future__ import annotations

from collections.abc import Mapping

from glimpse.pacing.auto_row import AutoRow

DOUBT = 32.0
"""Plain steps without gain that every drafter's record begins with: one row's few good rounds are no reason for all."""
AGE = 4
"""Steps after which the record is made anew, as more rows than one may look at it in each."""


class Common:
    """The mean speed of each drafter over the rows that run now, which takes the place of a row's first guess.

    It is made of what these rows saw, weighted by how much that is; a request that has left is no part of it.
    """

    def __init__(self, rows: Mapping[int, AutoRow]) -> None:
        self._rows, self._speeds, self._age = rows, dict[str, float](), AGE

    def step(self) -> None:
        """The batch has taken a step."""
        self._age += 1

    def tell(self, row: AutoRow) -> None:
        """A row's guesses become what its batch knows."""
        if self._age >= AGE:
            self._speeds, self._age = {name: self._mean(name) for name in row.shadows}, 0
        for name, shadow in row.shadows.items():
            shadow.score.guess = self._speeds[name]

    def _mean(self, name: str) -> float:
        scores = [row.shadows[name].score for row in self._rows.values()]
        return (DOUBT + sum(score.tokens for score in scores)) / (DOUBT + sum(score.steps for score in scores))
