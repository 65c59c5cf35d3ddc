"""How likely self-drafted tokens are to be accepted, by what was seen when they were drawn.

LibraSpec (arXiv 2608.08721) takes the drafter's probability of a token for that. It is one only where the target draws
with noise of its own (`matched`). Where both draw with the same noise (`coupled`), draft and target fall together on
unlikely tokens too: one of probability 0.04 is accepted as often as most. There a token stands by its *margin*, by how
much its score (log p plus noise) lay before the runner-up's: another wins only if the two laws differ by more than
that. Of a greedy row it is the margin in log p. The maps below are logistic fits to drafts of book text
(docs/libraspec.md); each request then learns where it lies beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glimpse.pacing.proposals import Floats

NEAREST = 0.05
"""Added to a margin before its logarithm is taken."""
SAMPLED, GREEDY = (2.42, 0.82), (3.6, 1.8)
"""Log-odds = a + b log(margin + NEAREST)."""
BY_ENTROPY = (4.43, -0.48)
"""Log-odds = a + b entropy (nats), of greedy rows whose margins are not known."""
BY_CHANCE = (2.41, 0.28)
"""Log-odds = a + b logit(probability), of sampled rows whose margins are not known or mean nothing."""
SUREST = 0.995
SPREAD = (0.4, 0.1)
"""Standard deviations of a request's own (shift, slope) around (0, 1). Half or twice as much foretold no better."""


def log_odds(said: Floats, entropy: Floats, margin: Floats, *, same_noise: bool, own_noise: bool) -> Floats:
    """[n]: the log-odds that each token is accepted once those before it are, for requests in general.

    `said` is the drafter's probability of the token drawn (1: greedy), `margin` NaN where it is not known.
    `same_noise`: the target draws with the same noise; `own_noise`: with its own, so it draws the token with about
    `said`.
    """
    near = np.log(np.minimum(margin, 1e3) + NEAREST)
    greedy = np.where(np.isnan(near), _line(BY_ENTROPY, entropy), _line(GREEDY, near))
    chance = np.clip(said, 0.01, 0.99)
    logit = np.log(chance / (1 - chance))
    sampled = logit if own_noise else _line(BY_CHANCE, logit)
    if same_noise:
        sampled = np.where(np.isnan(near), sampled, _line(SAMPLED, near))
    return np.asarray(np.where(said < 1, sampled, greedy))


def _line(of: tuple[float, float], values: Floats) -> Floats:
    return of[0] + of[1] * values


def _prior() -> Floats:
    return np.diag(np.square(SPREAD))


@dataclass(slots=True)
class Reliability:
    """One request's chances: sigmoid(shift + slope * log-odds), learned token by token.

    A Gaussian law of (shift, slope), moved by one Newton step a token (the extended Kalman filter of a logistic
    regression): what few tokens say counts little, and nothing has to be kept of them.
    """

    _mean: Floats = field(default_factory=lambda: np.array([0.0, 1.0]))
    _spread: Floats = field(default_factory=_prior)

    def chances(self, odds: Floats) -> Floats:
        """Of tokens with these log-odds, of any shape."""
        return np.asarray(np.minimum(1 / (1 + np.exp(-(self._mean[0] + self._mean[1] * odds))), SUREST))

    def learn(self, odds: float, accepted: bool) -> None:
        """What became of one token."""
        facts = np.array([1.0, odds])
        chance = 1 / (1 + np.exp(-(self._mean @ facts)))
        along = self._spread @ facts
        weight = chance * (1 - chance)
        gain = along / (1 + weight * (facts @ along))
        self._mean = self._mean + gain * (accepted - chance)
        self._spread = self._spread - weight * np.outer(gain, along)
