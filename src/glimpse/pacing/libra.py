"""LibraSpec's local search over the confidences of a chain, with rollback and credit (arXiv 2608.08721, algorithm 1).

Standing at token i of a draft of d tokens, what lies behind it is worth sum over j >= i of q_i ... q_j tokens, and a
token has to be worth 1 / alpha, so that it pays to go as far as

    e_i = floor(alpha * (sum over j = i..d of q_i ... q_j) + i)

where alpha bundles T_verify / (tokens a round * seconds of one more token). The least of them decides: at d or before,
the draft is cut there (the rollback); behind d, the draft may be as long as that (the credit), and further blocks are
drafted as they are needed.

With alpha_i = q_1 ... q_(i-1) * T(i-1) / (E(i-1) * seconds of one more token), E and T being the expected tokens and
the seconds of a round of so many, e_i > d says exactly that d tokens have a higher rate E / T than i - 1: so all of
them say that d is the best length so far. That form, with measured seconds, is `marginal`; the constant is what the
paper runs.
"""

from __future__ import annotations

import math

import numpy as np

from glimpse.pacing.proposals import Floats

ALPHA = 2.0
"""The paper's constant for small diffusion drafters; 2.2 for DFlash and DDTree, and flat between 1.8 and 2.2."""


def farthest(chances: Floats, alpha: float | Floats) -> int:
    """How many tokens are worth verifying of a draft with `chances` [d], d >= 1: less, as many, or more than there are.

    `chances` are each token's probability once those before it are accepted; `alpha` is one number or [d].
    """
    worth, behind = np.empty(len(chances)), 0.0
    for place in range(len(chances) - 1, -1, -1):
        behind = chances[place] * (1 + behind)
        worth[place] = behind
    return math.floor(float((alpha * worth + np.arange(1, len(chances) + 1)).min()))


def search(chances: Floats, alpha: float | Floats, block: int, most: int) -> tuple[int, bool]:
    """(length, whether it is final) after tokens with `chances` [n] were drafted, `block` at a time, at most `most`.

    A length that is not final is more than `most` allows or than there is: draft until it is reached, then ask again.
    Asked again with more tokens, it goes the same way as before.
    """
    length = min(block, most)
    while length <= len(chances):
        reach = farthest(chances[:length], alpha) if length else 0
        if reach <= length or length >= most:
            return min(reach, length), True
        length = min(reach, most)
    return length, False
