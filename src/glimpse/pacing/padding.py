"""What verifications cost beyond a straight line where steps are made for few sizes: a GPU's, as graphs.

A tree of 17 nodes may run as one of 23, and pays for 23: up to there nodes are free. Any verification is dearer than a
plain step by its tiles, and by being launched alone, while the next nodes cost next to nothing: on a line through
plain steps and small trees, each node seems to cost what the first one does, and large trees stay untried.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glimpse.pacing.costs import FEATURES, StepCosts, StepLoad, verifying
from glimpse.pacing.proposals import Floats, Ints

_TOKEN = FEATURES.index("full_tokens")


class Padding:
    """Prices what steps run with, in sizes: as the steps of each size took that ran, between those that ran by a line,
    and beyond the largest by the line's slope or by what bytes foretell, whichever is less."""

    def __init__(self, costs: StepCosts, padded: Callable[[int], int]) -> None:
        """`padded(n)`: with how many query tokens a step of n runs."""
        self._costs, self._padded = costs, padded
        self._sizes: Ints = np.zeros(0, np.int64)
        """[n]: what steps of 0, 1, ... tokens run with, as far as it was asked for."""

    def seconds(self, plain: StepLoad, nodes: int, each: float = 1.0) -> Floats:
        """[nodes + 1]: what verifying 0, 1, ... times `each` nodes takes beyond the line, in a step that is `plain`
        without them."""
        rows = plain.full_tokens
        more_nodes = np.rint(each * np.arange(nodes + 1)).astype(np.int64)
        run = self._run(rows + int(more_nodes[-1]))[rows + more_nodes]
        sizes = np.unique(run[1:])
        found = self._costs.missed([verifying(size, plain.full_kv + size - rows) for size in sizes.tolist()])
        token, foretold = (float(seconds[_TOKEN]) for seconds in (self._costs.coefficients, self._costs.foretold))
        more = token * (run - rows - more_nodes)
        if found:
            known = sizes[list(found)]
            more = more + np.interp(run, known, list(found.values()))
            # Where nothing was measured, what is thought dear is never tried.
            more = more - max(0.0, token - foretold) * np.maximum(0, run - known[-1])
        more[0] = 0.0
        return np.asarray(more)

    def tokens(self, tokens: int) -> int:
        """What a step of so many query tokens runs with."""
        return int(self._run(tokens)[tokens])

    def _run(self, most: int) -> Ints:
        if len(self._sizes) <= most:
            self._sizes = np.array([0, *map(self._padded, range(1, most + 1))])
        return self._sizes[: most + 1]
