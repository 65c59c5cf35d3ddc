"""How likely a row's next draft tokens are to be accepted, depth by depth.

ASPIRE (arXiv 2609.17943) keeps one acceptance a request, an average over its rounds, and takes every depth for alike.
Measured acceptance falls with depth, so that estimate is too low for the first tokens and too high for the last. Here
the chance that draft token d is rejected, given that all before it were accepted, is

    1 - p_i(d) = m_i h(d)

with h(d) the rate over all rows that are running (a profile: what depth does) and m_i the row's own factor (what its
text does). The factor has a Gamma law of mean 1 and weight KAPPA before anything is seen, so that its mean after
`misses` rejections where `expected` were to be expected is (KAPPA + misses) / (KAPPA + expected): a frailty model. Both
are decayed once a round. Only rows that are there count: what a request taught is gone with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

PRIOR = 0.9
"""Acceptance of a request that nothing is known of (ASPIRE)."""
OMEGA = 0.8
"""Weight of a request's past, once a round (ASPIRE)."""
KAPPA = 2.0
"""How many expected rejections the first guess of a row's factor is worth."""
KEEP = 0.98
"""Weight of the past in the profile, once a round of the row."""
WEIGHT = 6.0
"""How many tokens the rate of the depth before is worth as the first guess of a depth's own."""
LEAST, MOST = 0.005, 0.98
"""Bounds of a chance of rejection."""


@dataclass(slots=True)
class _Row:
    tries: np.ndarray
    """[most]: tokens judged at each depth, decayed."""
    misses: np.ndarray
    """[most]: how many of them were rejected."""
    lately: np.ndarray
    """[most]: tokens judged at each depth, decayed faster, and how many were rejected: they make the row's factor."""
    missed: float = 0.0

    def factor(self, hazards: np.ndarray) -> float:
        """How many rejections there were for each one that the profile expects."""
        return (KAPPA + self.missed) / (KAPPA + float(self.lately @ hazards))


@dataclass(slots=True)
class DepthChances:
    """The estimate for drafts of up to `most` tokens."""

    most: int
    _rows: dict[int, _Row] = field(default_factory=dict)
    _hazards: np.ndarray | None = None

    def admit(self, slot: int) -> None:
        """A request of which nothing is known."""
        self._rows[slot] = _Row(*np.zeros((3, self.most)))

    def retire(self, slot: int) -> None:
        """Forgets a request and what it taught."""
        if self._rows.pop(slot, None):
            self._hazards = None

    def learn(self, slot: int, drafted: int, accepted: int) -> None:
        """One verification: the accepted tokens were judged, and the first rejected one."""
        row, judged = self._rows[slot], min(accepted + 1, drafted, self.most)
        row.missed = OMEGA * row.missed + (accepted < drafted)
        row.lately *= OMEGA
        row.tries *= KEEP
        row.misses *= KEEP
        row.tries[:judged] += 1
        row.lately[:judged] += 1
        if accepted < drafted and accepted < self.most:
            row.misses[accepted] += 1
        self._hazards = None

    def of(self, slots: tuple[int, ...]) -> np.ndarray:
        """[R, most]: P(accepted, given that all before it were), by depth."""
        factors = np.array([[self._rows[slot].factor(self.hazards)] for slot in slots])
        return np.asarray(1 - np.clip(factors * self.hazards, LEAST, MOST))

    @property
    def hazards(self) -> np.ndarray:
        """[most]: the running rows' chance of rejection by depth; a depth hardly seen is taken for the one before."""
        if self._hazards is None:
            tries = np.sum([row.tries for row in self._rows.values()], axis=0)
            misses = np.sum([row.misses for row in self._rows.values()], axis=0)
            self._hazards, before = np.empty(self.most), 1 - PRIOR
            for depth in range(self.most):
                before = (misses[depth] + WEIGHT * before) / (tries[depth] + WEIGHT)
                self._hazards[depth] = before
        return self._hazards
