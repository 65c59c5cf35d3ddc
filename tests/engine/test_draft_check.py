"""Drafters and pacers of someone else's that do not keep to the protocol are named, and leave nothing behind."""

import pytest
import torch
from tests.doubles import Empty, with_parts

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


def test_the_first_and_last_id_of_the_vocabulary_may_be_drafted(tiny):
    right = tiny.generate([[5, 6, 7]], GREEDY)[0].token_ids
    for token in (0, tiny.spec.vocab_size - 1):
        assert (
            with_parts(tiny, Says(drafts([token])), draft_tokens=2).generate([[5, 6, 7]], GREEDY)[0].token_ids == right
        )


@pytest.mark.parametrize(("kind", "registry"), [("drafter", DRAFTERS), ("pacer", PACERS)])
def test_a_plug_in_that_builds_nothing_is_named(tiny, monkeypatch, kind, registry):
    monkeypatch.setitem(registry.builtin, "odd", "math:pi")
    with pytest.raises(GlimpseError, match=rf"{registry.group}: the plug-in 'odd' has no build\(context\)"):
        tiny.variant(**{kind: "odd"})
