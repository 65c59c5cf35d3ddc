"""What verifications cost beyond a straight line where steps are made for few sizes: a GPU's, as graphs.

A tree of 17 nodes may run as one of 23, and pays for 23: up to there nodes are free. Which sizes there are graphs of
changes, and a small step is run as a larger one for as long as there is no other. Any verification is dearer than a
plain step by its tiles, and by being launched alone, while the next nodes cost next to nothing: on a line through
plain steps and small trees, each node seems to cost what the first one does, and large trees stay untried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from glimpse.pacing.costs import FEATURES, StepCosts, StepLoad, verifying
from glimpse.pacing.proposals import Floats, Ints

_TOKEN = FEATURES.index("full_tokens")
_NONE: Ints = np.zeros(0, np.int64)
LAID = 64
"""Numbers of rows and nodes whose steps are remembered."""


class Sizes(Protocol):
    """With how many query tokens verifications run now."""

    @property
    def version(self) -> int:
        """Another one once that may have changed."""

    def run_with(self, rows: int, tokens: int) -> int:
        """Of one of so many rows with so many query tokens."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Sizes that do not change, whatever the rows."""

    padded: Callable[[int], int]
    version: int = 0

    def run_with(self, rows: int, tokens: int) -> int:
        """As `padded` says of so many tokens."""
        return self.padded(tokens)


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
        self._costs = costs
        self._laid = lru_cache(LAID)(self._lay)
        self.follow(Steady(padded))

    def follow(self, sizes: Sizes) -> None:
        """From now on steps run as `sizes` says."""
        self._sizes, self._version = sizes, sizes.version
        self._runs: dict[int, Ints] = {}
        """By rows, [n]: what steps of 0, 1, ... tokens run with, as far as it was asked for."""
        self._laid.cache_clear()
        self._known: tuple[object, dict[int, float]] = None, {}
        """What `_missed` said last, and for what."""
        self._from: tuple[object, list[int]] = None, []
        """The same of `_sizes_from`."""

    def seconds(self, plain: StepLoad, nodes: int, each: float = 1.0) -> Floats:
        """[nodes + 1]: what verifying 0, 1, ... times `each` nodes takes beyond the line, in a step that is `plain`
        without them."""
        self._renew()
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
        self._renew()
        self._missed(plain)

    def _missed(self, plain: StepLoad) -> dict[int, float]:
        """`StepCosts.missed` by size, of all sizes that were asked for; kept until another step has been seen."""
        rows, read = plain.full_tokens, plain.full_kv - plain.full_tokens
        sizes = self._sizes_from(rows)
        # Kinds have lengths by their bits.
        key = self._costs.observed, sizes, [(read + size).bit_length() for size in sizes]
        if self._known[0] != key:
            found = self._costs.missed([verifying(size, read + size) for size in sizes])
            self._known = key, {sizes[place]: more for place, more in found.items()}
        return self._known[1]

    def _sizes_from(self, rows: int) -> list[int]:
        """What steps of so many rows with nodes run with, ascending, as far as it was asked for."""
        runs = self._runs.get(rows, _NONE)
        if self._from[0] != (key := (rows, len(runs))):
            self._from = key, np.unique(runs[rows + 1 :]).tolist()
        return self._from[1]

    def _lay(self, rows: int, nodes: int, each: float) -> _Laid:
        more_nodes = np.rint(each * np.arange(nodes + 1)).astype(np.int64)
        run = self._run(rows, rows + int(more_nodes[-1]))[rows + more_nodes]
        return _Laid(run, run - rows - more_nodes, frozenset(run[1:].tolist()))

    def tokens(self, tokens: int) -> int:
        """What a step of one row with so many query tokens runs with."""
        self._renew()
        return int(self._run(1, tokens)[tokens])

    def _run(self, rows: int, most: int) -> Ints:
        runs = self._runs.get(rows, _NONE)
        if len(runs) <= most:
            far = range(1, max(most, 2 * len(runs)) + 1)
            found = [0, *(self._sizes.run_with(rows, tokens) for tokens in far)]
            runs = self._runs[rows] = np.maximum.accumulate(found)
        return runs[: most + 1]

    def _renew(self) -> None:
        """Forgets what has changed."""
        if self._sizes.version != self._version:
            self.follow(self._sizes)
