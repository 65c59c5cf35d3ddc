"""What became of the drafts of a batch, learned in one loop over all rows: a call takes longer than one row's part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from glimpse.drafting.compiled import compiled
from glimpse.drafting.places import array_at
from glimpse.pacing.proposals import CELLS, Floats, Ints, Proposal, Trust, judge

Judged = tuple[Proposal, int, int]
"""A row's draft: where it begins and ends among the nodes of several rows."""


def learn(trusts: Sequence[Trust], drafts: Sequence[Judged], committed: Sequence[list[int]]) -> None:
    """Each row's `Trust.learn_part`: what was drafted for it, and what came instead. In one loop where the drafts lie
    in one `Proposal`, as those of a batch do."""
    if len(drafts) < 2 or any(nodes is not drafts[0][0] for nodes, _, _ in drafts):
        for trust, draft, tokens in zip(trusts, drafts, committed, strict=True):
            trust.learn_part(*draft, tokens)
        return
    _learn(
        np.array([trust.place for trust in trusts]), *drafts[0][0].facts,
        np.array([begin for _, begin, _ in drafts]), np.array([end for _, _, end in drafts]),
        np.array(list(chain.from_iterable(committed)), np.int64), np.array(list(map(len, committed))),
    )  # fmt: skip


@compiled
def _learn(
    places: Ints, tokens: Ints, parents: Ints, sources: Ints, depths: Ints, said: Floats, begins: Ints, ends: Ints,
    committed: Ints, counts: Ints,
) -> None:  # fmt: skip
    """`places` [R]: where the counts of each row lie; `begins` and `ends` [R]: of its nodes; `counts` [R]: of its
    tokens among those committed."""
    at = 0
    for row in range(len(places)):
        seen = array_at(places[row], CELLS, np.float64)
        judge(
            tokens, parents, sources, depths, said, begins[row], ends[row], committed[at : at + counts[row]], seen[0],
            seen[1],
        )  # fmt: skip
        at += counts[row]


def rehearse() -> None:
    """Runs the loop once."""
    one = np.zeros(1, np.int64)
    nodes = Proposal(one, one - 1, np.ones(1), one, one + 1)
    learn([Trust(), Trust()], [(nodes, 0, 1)] * 2, [[0]] * 2)
