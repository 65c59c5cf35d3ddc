"""Drafters and pacers of someone else's that do not keep to the protocol are named, and leave nothing behind."""

import pytest
import torch
from tests.doubles import Empty, with_parts
from tests.trees import tree_draft, with_trees

from glimpse.drafting import DRAFTERS
from glimpse.drafting.chains import chain
from glimpse.drafting.drafter import Draft
from glimpse.errors import GlimpseError
from glimpse.pacing import PACERS
from glimpse.sampling import SamplingParams

GREEDY = SamplingParams(max_tokens=8, temperature=0.0)


class Says(Empty):
    """Plans what it is given, whatever it is asked for."""

    name = "odd"

    def __init__(self, planned):
        super().__init__()
        self._planned = planned

    def plan(self, rows, room):
        return self._planned


def drafts(*rows):
    return chain([list(row) for row in rows], [[0.5] * len(row) for row in rows])


def tree(*nodes):
    """One row of (token, parent)."""
    return tree_draft(list(nodes))


class Branches(Says):
    """A tree drafter of at most 4 nodes; `turns` times, then empty drafts."""

    gives_tree = True
    budget = 4

    def __init__(self, planned, turns=99):
        super().__init__(planned)
        self._turns = turns

    def plan(self, rows, room):
        self._turns -= 1
        return super().plan(rows, room) if self._turns >= 0 else drafts([])


def cut(*offsets):
    """Two tokens with these bounds."""
    whole = drafts([5, 6])
    return Draft(whole.tokens, whole.parents, offsets, whole.confidence, whole.source)


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        (drafts([1] * 5), "drafted 5 tokens where 2 were asked"),
        (drafts([-1]), "drafted token id -1; ids are from 0 to "),
        (drafts([5, 10**6]), "drafted token id 1000000; ids are from 0 to "),
        (drafts([5], [6]), "drafted for 2 rows where 1 were asked"),
        (drafts(), "drafted for 0 rows where 1 were asked"),
        ([], "drafted for 0 rows where 1 were asked"),
        (cut(0, 1), r"gave 2 tokens, 2 parents and 2 confidences with the bounds \[0, 1\]"),
        (cut(1, 2), r"gave 2 tokens, 2 parents and 2 confidences with the bounds \[1, 2\]"),
        (None, "gave NoneType, not a Draft or a list of RowSpec"),
        ([5], "gave list, not a Draft or a list of RowSpec"),
        (torch.tensor([5]), "gave Tensor, not a Draft or a list of RowSpec"),
    ],
)
def test_a_drafter_that_breaks_the_protocol_is_named(tiny, planned, said):
    free = tiny.loaded.pool.free_pages
    with pytest.raises(GlimpseError, match=f"drafter 'odd' {said}"):
        with_parts(tiny, Says(planned), draft_tokens=2).generate([[5, 6, 7]], GREEDY)
    assert tiny.loaded.pool.free_pages == free


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        (tree((5, -1), (6, 1)), "gave node 1 the parent 1; it must be from -1 to 0"),
        (tree((5, -1), (6, 2), (7, 0)), "gave node 1 the parent 2; it must be from -1 to 0"),
        (tree((5, -1), (6, -2)), "gave node 1 the parent -2; it must be from -1 to 0"),
        (tree((5, 0)), "gave node 0 the parent 0; it must be from -1 to -1"),
        (tree((5, -1), (6, -1), (5, -1)), "drafted token id 5 twice after node -1"),
        (tree((5, -1), (5, -1)), "drafted token id 5 twice after node -1"),
        (tree((5, -1), (6, 0), (7, 0), (6, 0)), "drafted token id 6 twice after node 0"),
        (tree((5, -1), (6, -1), (7, 1), (8, 2)), "drafted 3 tokens where 2 were asked"),
        (tree(*((token, -1) for token in range(5))), "gave a tree of 5 nodes; 4 are the most"),
        (tree((5, -1), (300, -1)), "drafted token id 300; ids are from 0 to 299"),
    ],
)
def test_a_tree_that_is_none_is_named(tiny, planned, said):
    with pytest.raises(GlimpseError, match=f"drafter 'odd' {said}"):
        with_trees(tiny, Branches(planned), draft_tokens=2).generate([[5, 6, 7]], GREEDY)
    assert tiny.loaded.pool.free_pages == tiny.loaded.pool.pages


def test_a_tree_from_a_drafter_of_chains_is_named(tiny):
    with pytest.raises(GlimpseError, match="drafter 'odd' gave a tree; it says that it gives chains"):
        with_parts(tiny, Says(tree((5, -1), (6, -1))), draft_tokens=2).generate([[5, 6, 7]], GREEDY)


@pytest.mark.parametrize("planned", [tree((5, -1)), tree((5, -1), (6, 0)), tree((6, -1), (5, -1), (6, 1), (6, 0))])
def test_a_whole_tree_is_taken(tiny, planned):
    """Equal tokens after different parents are no duplicates."""
    drafter = Branches(planned, turns=1)
    with_trees(tiny, drafter, draft_tokens=2).generate([[5, 6, 7]], SamplingParams(max_tokens=4, temperature=0.0))
    assert drafter.outcomes[1].drafted == len(planned.tokens)


def test_the_first_and_last_id_of_the_vocabulary_may_be_drafted(tiny):
    right = tiny.generate([[5, 6, 7]], GREEDY)[0].token_ids
    for token in (0, tiny.spec.vocab_size - 1):
        assert (
            with_parts(tiny, Says(drafts([token])), draft_tokens=2).generate([[5, 6, 7]], GREEDY)[0].token_ids == right
        )


@pytest.mark.parametrize(("kind", "registry"), [("drafter", DRAFTERS), ("pacer", PACERS)])
def test_a_plug_in_that_builds_nothing_is_named(tiny, monkeypatch, kind, registry):
    monkeypatch.setitem(registry.builtin, "odd", "math:pi")
    with pytest.raises(GlimpseError, match=rf"{registry.group}: the plug-in 'odd' is no class that inherits glimpse"):
        tiny.variant(**{kind: "odd"})
