"""Draft trees on the host: paths through them, and what a draft of several rows says of each node."""

from __future__ import annotations

import numpy as np
import pytest

from glimpse.drafting.tree import EMPTY, Tree, draft_of

FORK = Tree(
    np.array([5, 6, 7, 8]),
    np.array([-1, 0, -1, 1]),
    np.array([0.8, 0.4, 0.1, 0.1], np.float32),
    np.array([1, 1, 2, 2], np.uint8),
)


@pytest.mark.parametrize(
    ("continuation", "path"), [([5, 6, 8, 9], [0, 1, 3]), ([7, 6], [2]), ([6], []), ([], []), ([5, 8], [0])]
)
def test_the_path_of_a_continuation(continuation, path):
    assert FORK.path(continuation) == path


def test_a_draft_holds_each_row_s_own_parents_and_conditional_probabilities():
    draft = draft_of([FORK, EMPTY, FORK])
    assert draft.offsets == (0, 4, 4, 8)
    assert draft.tokens.tolist() == [5, 6, 7, 8] * 2
    assert draft.parents.tolist() == [-1, 0, -1, 1] * 2
    assert draft.confidence.tolist() == pytest.approx([0.8, 0.5, 0.1, 0.25] * 2)
    assert draft.source.tolist() == [1, 1, 2, 2] * 2


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_drafts_without_nodes(rows):
    draft = draft_of([EMPTY] * rows)
    assert draft.offsets == (0,) * (rows + 1)
    assert [len(getattr(draft, name)) for name in ("tokens", "parents", "confidence", "source")] == [0] * 4
