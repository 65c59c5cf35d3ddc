"""What became of the drafts of a batch, learned in one loop over all rows: a call takes longer than one row's part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, groupby
from typing import NamedTuple

import numba
import numpy as np

from glimpse.drafting.compiled import compiled
from glimpse.drafting.places import pointer
from glimpse.pacing.proposals import CELLS, Floats, Ints, Proposal, Trust, judge


class Draft(NamedTuple):
    """What was proposed for a row, and what came instead."""

    trust: Trust
    nodes: Proposal
    begin: int
    end: int
    """Where the row's own nodes begin and end among `nodes`."""
    committed: list[int]


def learn(drafts: Sequence[Draft]) -> None:
    """Each row's `Trust.learn_part`; a batch's nodes lie in one `Proposal`."""
    for _, group in groupby(drafts, lambda draft: id(draft.nodes)):
        together = list(group)
        committed = [draft.committed for draft in together]
        _learn(
            np.array([draft.trust.place for draft in together]), *together[0].nodes.facts,
            np.array([(draft.begin, draft.end) for draft in together]),
            np.array(list(chain.from_iterable(committed)), np.int64),
            np.array(list(accumulate(map(len, committed), initial=0))),
        )  # fmt: skip


@compiled
def _learn(
    places: Ints, tokens: Ints, parents: Ints, sources: Ints, depths: Ints, said: Floats, bounds: Ints,
    committed: Ints, ends: Ints,
) -> None:  # fmt: skip
    """`places` [R]: where the counts of each row lie; `bounds` [R, 2] of its nodes, `ends` [R + 1] of its text."""
    for row in range(len(places)):
        seen = numba.carray(pointer(places[row]), CELLS, np.float64)
        judge(
            tokens, parents, sources, depths, said, bounds[row, 0], bounds[row, 1],
            committed[ends[row] : ends[row + 1]], seen[0], seen[1],
        )  # fmt: skip


def rehearse() -> None:
    """Runs the loop once."""
    one = np.zeros(1, np.int64)
    learn([Draft(Trust(), Proposal(one, one - 1, np.ones(1), one, one + 1), 0, 1, [0])])
