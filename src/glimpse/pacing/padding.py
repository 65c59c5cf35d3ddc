"""What verifications cost beyond a straight line where steps are made for few sizes: a GPU's, as graphs.

A tree of 17 nodes may run as one of 23, and pays for 23: up to there nodes are free. Any verification is dearer than a
plain step by its tiles, and by being launched alone, while the next nodes cost next to nothing: on a line through
plain steps and small trees, each node seems to cost what the first one does, and large trees stay untried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from glimpse.pacing.costs import FEATURES, StepCosts, StepLoad, verifying
from glimpse.pacing.proposals import Floats, Ints

_TOKEN = FEATURES.index("full_tokens")
LAID = 64
"""Numbers of rows and nodes whose steps are remembered."""


@dataclass(frozen=True, slots=True)
class _Laid:
    """Steps of some rows with 0, 1, ... times so many nodes."""

    run: Ints
    """[nodes + 1] with how many tokens they run."""
    over: Ints
    """[nodes + 1] how many of these are padding."""
    sizes: frozenset[int]
    """Those that steps with nodes run with."""


class Padding:
    """Prices what steps run with, in sizes: as the steps of each size took that ran, between those that ran by a line,
    and beyond the largest by the line's slope or by what bytes foretell, whichever is less."""

    def __init__(self, costs: StepCosts, padded: Callable[[int], int]) -> None:
        """`padded(n)`: with how many query tokens a step of n runs; never fewer for more."""
        self._costs, self._padded = costs, padded
        self._sizes: Ints = np.zeros(0, np.int64)
        """[n]: what steps of 0, 1, ... tokens run with, as far as it was asked for."""
        self._laid = lru_cache(LAID)(self._lay)
        self._known: tuple[object, dict[int, float]] = None, {}
        """What `_missed` said last, and for what."""
        self._from: tuple[object, list[int]] = None, []
        """The same of `_sizes_from`."""

    def seconds(self, plain: StepLoad, nodes: int, each: float = 1.0) -> Floats:
        """[nodes + 1]: what verifying 0, 1, ... times `each` nodes takes beyond the line, in a step that is `plain`
        without them."""
        laid, missed = self._laid(plain.full_tokens, nodes, each), self._missed(plain)
        found = {size: more for size, more in missed.items() if size in laid.sizes}
        token, foretold = (float(seconds[_TOKEN]) for seconds in (self._costs.coefficients, self._costs.foretold))
        more = token * laid.over
        if found:
            known = list(found)
            more = more + np.interp(laid.run, known, list(found.values()))
            # Where nothing was measured, what is thought dear is never tried.
            if token > foretold:
                more = more - (token - foretold) * np.maximum(0, laid.run - known[-1])
        more[0] = 0.0
        return np.asarray(more)

    def prepare(self, plain: StepLoad) -> None:
        """Finds what can be known of the next steps that are about `plain` without nodes."""
        self._missed(plain)

    def _missed(self, plain: StepLoad) -> dict[int, float]:
        """`StepCosts.missed` by size, of all sizes that were asked for; kept until another step has been seen."""
        rows, read = plain.full_tokens, plain.full_kv - plain.full_tokens
        sizes = self._sizes_from(rows + 1)
        # Kinds have lengths by their bits.
        key = self._costs.observed, sizes, [(read + size).bit_length() for size in sizes]
        if self._known[0] != key:
            found = self._costs.missed([verifying(size, read + size) for size in sizes])
            self._known = key, {sizes[place]: more for place, more in found.items()}
        return self._known[1]

    def _sizes_from(self, tokens: int) -> list[int]:
        """What steps of at least so many tokens run with, ascending, as far as it was asked for."""
        if self._from[0] != (key := (tokens, len(self._sizes))):
            self._from = key, np.unique(self._sizes[tokens:]).tolist()
        return self._from[1]

    def _lay(self, rows: int, nodes: int, each: float) -> _Laid:
        more_nodes = np.rint(each * np.arange(nodes + 1)).astype(np.int64)
        run = self._run(rows + int(more_nodes[-1]))[rows + more_nodes]
        return _Laid(run, run - rows - more_nodes, frozenset(run[1:].tolist()))

    def tokens(self, tokens: int) -> int:
        """What a step of so many query tokens runs with."""
        return int(self._run(tokens)[tokens])

    def _run(self, most: int) -> Ints:
        if len(self._sizes) <= most:
            self._sizes = np.array([0, *map(self._padded, range(1, most + 1))])
        return self._sizes[: most + 1]
