"""The draft lengths that write most tokens per second in a batch whose rows need not keep step.

In a steady state a row that drafts g tokens and then verifies them gives E(g) / (g + 1) tokens a step and adds
M(g) / (g + 1) seconds to it, where M(g) is what its round costs beyond the steps themselves. All rows share what a step
costs whatever it carries, so the batch's rate is

    R = sum of E_i(g_i) / (g_i + 1)  over  step + sum of M_i(g_i) / (g_i + 1)

ASPIRE (arXiv 2609.17943) takes each row's best length in a batch of its like. A row with poor drafts beside rows with
good ones is then priced wrongly: its tokens cost the others time that is worth R, not its own rate. The sum over rows
of (E_i(g) - R M_i(g)) / (g + 1) is what must be greatest at the R it gives (Dinkelbach, "On nonlinear fractional
programming", Management Science 1967): each row's length on its own, given R, and R from the lengths, a few times over.
"""

from __future__ import annotations

import numpy as np

from glimpse.pacing.rounds import Prices

TURNS = 8
"""Most repetitions; three are the rule."""


def tokens_of(chances: np.ndarray) -> np.ndarray:
    """[R, K + 1]: E(g), tokens of rounds of 0, 1, ..., K drafts with chances [R, K], the target's own counted."""
    reached = np.cumprod(chances, 1)
    return 1 + np.concatenate([np.zeros((len(chances), 1)), np.cumsum(reached, 1)], 1)


def best_lengths(tokens: np.ndarray, prices: Prices, *, drafting: bool) -> np.ndarray:
    """[R] int64: each row's best length, given tokens [R, K + 1] of a round; the shortest on a tie.

    `drafting`: each draft token is a step of the engine; else drafts are there already and a round is one step.
    """
    steps = 1.0 + (np.arange(tokens.shape[1]) if drafting else np.zeros(tokens.shape[1]))
    seconds, rows = prices.rounds, np.arange(len(tokens))
    lengths = (tokens / (seconds + steps * prices.step / len(tokens))).argmax(1)
    for _ in range(TURNS):
        taken = steps[lengths]
        spent = prices.step + float((seconds[rows, lengths] / taken).sum())
        rate = float((tokens[rows, lengths] / taken).sum()) / spent
        worth = (tokens - rate * seconds) / steps
        better = worth.argmax(1)
        if (better == lengths).all():
            break
        lengths = better
    return np.asarray(lengths)
