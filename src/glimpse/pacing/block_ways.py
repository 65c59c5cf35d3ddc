"""Which way blocks are drafted: beside every verification, or in steps of their own, and how many tokens are verified.

FlexDraft (arXiv 2605.20022) drafts in the forward that verifies ("parallel"), with a group of masks wherever a row may
end, for up to two rows, and in a forward of its own ("sequential") for more. Here each way is priced by what its steps
were seen to take, those with masks among them (`StepLoad.riding`), or by the step-cost surface before that. With E(k)
accepted of k drafts, and p the chance that a row ends where a group rides, the steps of R rows yield in the long run

    parallel:    R + f E(k) tokens a step, f = 1 / (2 - p): a row whose group was missing has no draft once
    sequential:  2 R + E(k) tokens in two steps, one that makes blocks and one that verifies them

and the way with the most tokens a second is taken, with hysteresis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.proposals import Floats
from glimpse.pacing.riding import FIRST_GUESS, PAST

LENGTHS = (1, 2, 4)
"""Drafts that a step is made for, beside the longest: each is a graph."""
BETTER = 1.05
"""How much faster another way has to look than the one taken."""
KNOWN = 2
"""Steps of a kind that say what one takes."""


@dataclass(frozen=True, slots=True)
class BlockWay:
    """What steps that draft are."""

    length: int
    """Drafted tokens of a row that are verified, at most."""
    groups: int
    """Groups of masks that ride on a verification, for each row; 0: blocks are made in steps of their own."""

    @property
    def sequential(self) -> bool:
        """Whether blocks are made in steps of their own."""
        return self.groups == 0


def masked_load(lengths: Sequence[int], queries: int, groups: int, masks: int) -> StepLoad:
    """A step of rows of these lengths with `queries` tokens each and `masks` mask tokens in `groups` groups."""
    tokens, read = len(lengths) * queries, sum(lengths)
    return StepLoad(
        full_tokens=tokens, full_kv=read + tokens - len(lengths), pairs=queries * read,
        draft_tokens=len(lengths) * masks, draft_kv=groups * read, riding=1,
    )  # fmt: skip


def bare_load(lengths: Sequence[int], queries: int) -> StepLoad:
    """A step of rows of these lengths with `queries` tokens each, and nothing that rides."""
    tokens, read = len(lengths) * queries, sum(lengths)
    return StepLoad(full_tokens=tokens, full_kv=read + tokens - len(lengths), pairs=queries * read)


class BlockWays:
    """Chooses among the ways of one mode; knows how much of each row's blocks is accepted."""

    def __init__(
        self, costs: StepCosts, size: int, longest: int, most: int, queries: Callable[[int], int], mode: str = "auto"
    ) -> None:
        """Blocks have `size` tokens, of which `longest` are verified at most; a row has at most `most` groups.

        `queries(k)`: tokens a row of a step that is made for drafts of k. `mode`: one of `riding.MODES`.
        """
        self._costs, self._size, self._most, self._queries = costs, size, most, queries
        lengths = sorted({*(length for length in LENGTHS if length < longest), longest})
        parallel = [BlockWay(length, min(length + 1, most)) for length in lengths]
        apart = [BlockWay(length, 0) for length in lengths]
        alone = [BlockWay(length, 1) for length in lengths]
        self._ways = {
            "auto": [*dict.fromkeys(parallel + alone + apart)], "parallel": parallel[-1:], "sequential": apart[-1:]
        }[mode]  # fmt: skip
        self._reach: dict[int, Floats] = {}
        """By slot, [size]: the chance that so many of a block are accepted, averaged over its blocks."""
        self._guess = np.asarray((FIRST_GUESS / (1 + FIRST_GUESS)) ** np.arange(1, size + 1), np.float64)
        self._usual: Floats = self._guess
        """Of rows whose blocks are not known yet."""
        self._way = self._ways[-1 if mode == "sequential" else 0]
        self._rows = 0

    def heard(self, slot: int, reach: Floats) -> None:
        """A block of a row, and the chance that the text runs through each of its tokens, 0 where it was cut."""
        found = np.zeros(self._size)
        found[: len(reach)] = reach
        self._reach[slot] = PAST * self._reach.get(slot, self._usual) + (1 - PAST) * found
        self._usual = PAST * self._usual + (1 - PAST) * found

    def leave(self, slot: int) -> None:
        """Forgets a row."""
        self._reach.pop(slot, None)

    def choose(self, slots: Sequence[int], lengths: Sequence[int]) -> BlockWay:
        """The way for these rows, of these lengths; the one taken before unless another looks clearly better."""
        rates = {way: self.rate(way, slots, lengths) for way in self._ways}
        best = max(rates, key=lambda way: rates[way])
        if rates[best] > BETTER * rates[self._way] or len(slots) != self._rows:
            self._way = best
        self._rows = len(slots)
        return self._way

    def rate(self, way: BlockWay, slots: Sequence[int], lengths: Sequence[int]) -> float:
        """Tokens per second that these rows are expected to write in a way."""
        return self._rate(way, np.array([self._reach.get(slot, self._usual) for slot in slots]), lengths)

    def hope(self, lengths: Sequence[int]) -> float:
        """Tokens per second of rows of these lengths in the best way, were their blocks as good as is usually guessed.

        It does not depend on blocks seen: a batch that does not draft sees none, and would never hope again.
        """
        reach = np.repeat(self._guess[None], len(lengths), 0)
        return max(self._rate(way, reach, lengths) for way in self._ways)

    def _rate(self, way: BlockWay, reach: Floats, lengths: Sequence[int]) -> float:
        accepted = reach[:, : way.length].sum(1)
        if way.sequential:
            seconds = self._seconds(masked_load(lengths, 1, 1, self._size))
            seconds += self._seconds(bare_load(lengths, self._queries(way.length)))
            return float((2 + accepted).sum() / seconds)
        ending = 1.0 if way.groups > way.length else 1 - reach[:, way.groups - 1]
        groups, queries = self.groups(way), self._queries(way.length)
        seconds = self._seconds(masked_load(lengths, queries, groups, groups * self._size))
        return float((1 + accepted / (2 - ending)).sum() / seconds)

    def plain_rate(self, lengths: Sequence[int]) -> float:
        """Tokens per second of plain decoding."""
        return len(lengths) / self._seconds(bare_load(lengths, 1))

    def groups(self, way: BlockWay) -> int:
        """Groups that a step of a parallel way is made for: one, or all that a row of such steps may have."""
        return 1 if way.groups == 1 else min(self._queries(way.length), self._most)

    def _seconds(self, load: StepLoad) -> float:
        measured = self._costs.measured(load)
        known = measured is not None and self._costs.seen(load) >= KNOWN
        return measured if known and measured is not None else self._costs.seconds(load)
