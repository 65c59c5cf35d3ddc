"""A06: both paths take the same defaults from generation_config.json, and say so."""

from __future__ import annotations

import pytest
from tests.cases.doubles import NAMES, drafting
from tests.cases.models import copied

from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

IDS = copied(60)
DEFAULTS = [
    {"repetition_penalty": 1.05},
    {"repetition_penalty": 1.05, "do_sample": False},
    {"top_k": 20},
    {"repetition_penalty": 1.05, "top_k": 20, "temperature": 0.6, "top_p": 0.9},
]


def load(folder):
    """Two of these draw alike: they begin with the same seed."""
    return LLM(folder, drafter="none", pacer="fixed", max_context=100, seed=5, device="cpu")


@pytest.mark.parametrize("defaults", DEFAULTS)
@pytest.mark.parametrize("name", NAMES)
def test_a06_without_arguments_both_paths_are_alike(altered, defaults, name):
    folder = altered(defaults)
    plain = load(folder).generate(IDS)[0]
    out = drafting(load(folder), name, [(IDS, plain.token_ids)], budget_floor=8).generate(IDS)[0]
    assert out.token_ids == plain.token_ids
    assert len(out.token_ids) == 40
    expected = {"temperature": 0.0 if "do_sample" in defaults else 1.0} | defaults
    for key in expected.keys() - {"do_sample"}:
        assert plain.settings[key] == out.settings[key] == expected[key]


@pytest.mark.parametrize("defaults", DEFAULTS)
def test_a06_the_defaults_matter(altered, tiny_folder, defaults):
    """Otherwise equality says nothing."""
    neutral = load(tiny_folder).generate(IDS)[0]
    assert load(altered(defaults)).generate(IDS)[0].token_ids != neutral.token_ids


def test_a06_compare_runs_both_with_the_same_settings(altered):
    llm = LLM(altered(DEFAULTS[-1]), drafter="lookup", pacer="fixed", draft_tokens=4, max_context=100, device="cpu")
    result = llm.compare(IDS, SamplingParams(seed=3))
    assert result.identical
    told = ("temperature", "top_k", "top_p", "repetition_penalty", "seed")
    assert [result.baseline.settings[name] for name in told] == [result.speculative.settings[name] for name in told]
