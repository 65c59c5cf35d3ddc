"""The store across requests: off unless named, private to its name, bounded, refused where nobody reads it."""

from __future__ import annotations

import random

import pytest

from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

DRAFTERS = {"suffix": "marginal", "racer+suffix": "marginal", "auto": None}
IDS = random.Random(8).choices(range(3, 300), k=40)
PARAMS = SamplingParams(max_tokens=60, temperature=0.9, seed=2)


def drafted(llm) -> int:
    out = llm.generate([IDS], PARAMS)[0]
    return out.speculation.accepted


@pytest.mark.parametrize(("drafter", "pacer"), [("suffix", "fixed"), ("racer+suffix", "fixed")])
def test_what_one_request_wrote_the_next_one_drafts_from(tiny, drafter, pacer):
    """The same request again: nearly all of it is accepted, and the text is the same."""
    llm = tiny.variant(drafter=drafter, pacer=pacer, draft_tokens=8, suffix_store=f"again {drafter}")
    first, second = (llm.generate([IDS], PARAMS)[0] for _ in range(2))
    assert first.token_ids == second.token_ids == tiny.generate([IDS], PARAMS)[0].token_ids
    assert second.speculation.accepted > first.speculation.accepted + 20
    assert second.settings["suffix_store"] == f"again {drafter}"


@pytest.mark.parametrize(("drafter", "pacer"), DRAFTERS.items())
def test_without_a_name_nothing_is_kept(tiny, drafter, pacer):
    llm = tiny.variant(drafter=drafter, pacer=pacer)
    drafted(llm)
    assert llm._engine.parts.drafter.store is None
    assert llm.settings["suffix_store"] is None


def test_stores_are_private_to_their_names_and_shared_by_variants(tiny):
    stores = [
        tiny.variant(drafter=drafter, pacer=DRAFTERS[drafter], suffix_store=name)._engine.parts.drafter.store
        for drafter, name in (("suffix", "a"), ("suffix", "b"), ("racer+suffix", "a"), ("auto", "a"))
    ]
    assert stores[0] is stores[2] is stores[3]
    assert stores[0] is not stores[1]


def test_it_is_bounded(tiny):
    llm = tiny.variant(drafter="suffix", pacer="marginal", suffix_store="small", suffix_store_tokens=100)
    for _ in range(4):
        drafted(llm)
    assert 50 < len(tiny.loaded.stores["small"]) <= 100


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"drafter": "lookup", "suffix_store": "x"}, "suffix_store 'x' means nothing to drafter 'lookup'"),
        ({"drafter": "racer", "suffix_store": "x"}, "suffix_store 'x' means nothing to drafter 'racer'"),
        ({"drafter": "suffix", "suffix_store": ""}, "suffix_store '' is no name"),
        ({"drafter": "suffix", "suffix_store_tokens": 9}, "suffix_store_tokens 9 means nothing without suffix_store"),
        ({"drafter": "suffix", "suffix_store": "x", "suffix_store_tokens": 1}, "suffix_store_tokens"),
    ],
)
def test_wrong_options_are_refused(tiny_folder, options, said):
    with pytest.raises(ArgumentError, match=said):
        LLM(tiny_folder, device="cpu", **options)


def test_one_name_has_one_size(tiny):
    tiny.variant(drafter="suffix", pacer="marginal", suffix_store="sized", suffix_store_tokens=500)
    with pytest.raises(ArgumentError, match="keeps 500 tokens already, not 400"):
        tiny.variant(drafter="suffix", pacer="marginal", suffix_store="sized", suffix_store_tokens=400)
