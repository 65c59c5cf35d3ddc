"""Whole texts of the engine, plain against speculative, with other seeds: one law? (`benchmarks.laws_texts`)"""

from __future__ import annotations

import random

import pytest
from benchmarks.laws import LEVEL
from benchmarks.laws_texts import least_p, one_law, texts
from scipy.stats import chi2_contingency
from tests.doubles import Fixed, RandomPacer, with_parts
from tests.engine.test_engine_laws import Branching
from tests.trees import with_trees

from glimpse.llm import LLM

DRAWS = 700
PROMPT = [40, 17, 99, 5, 260, 33, 8, 140, 71, 206] * 4
ALLOWED = (40, 41, 42, 43)


@pytest.fixture(scope="module")
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=600, max_context=64).variant(budget_floor=8)


@pytest.fixture(scope="module")
def plain(llm):
    return texts(llm, PROMPT, ALLOWED, DRAWS, 1)


def variant(llm: LLM, rule: str, kind: str) -> LLM:
    if kind == "trees":
        return with_trees(llm, Branching(), RandomPacer(3), acceptance=rule, draft_tokens=3)
    if kind == "mixing":
        return with_parts(llm, None, RandomPacer(3), drafter="sparse", acceptance=rule, draft_tokens=3)
    if kind == "fixed":
        return with_parts(llm, Fixed([42, 40, 42], [41], []), acceptance=rule, draft_tokens=3)
    return llm.variant(drafter=kind, acceptance=rule, draft_tokens=3)


@pytest.mark.parametrize(
    ("rule", "kind"),
    [("rejection", "sparse"), ("rejection", "refresh"), ("rejection", "mixing"), ("rejection", "fixed"),
     ("matched", "mixing"), ("matched", "trees"), ("coupled", "sparse"), ("coupled", "trees")],
    ids=lambda value: value,
)  # fmt: skip
def test_speculative_texts_are_plain_texts(llm, plain, rule, kind):
    assert least_p(plain, texts(variant(llm, rule, kind), PROMPT, ALLOWED, DRAWS, 1_000_003)) >= LEVEL


def test_another_temperature_is_seen(llm, plain):
    """Teeth: what is no longer the same law is refused."""
    assert least_p(plain, texts(llm, PROMPT, ALLOWED, DRAWS, 5, temperature=0.7)) < LEVEL


def test_another_order_is_seen(plain):
    """Teeth: the same tokens the other way round have the same counts and another law."""
    assert least_p(plain, [text[::-1] for text in plain]) < LEVEL


def test_the_chance_is_scipys():
    draw = random.Random(0)
    first, second = draw.choices("abc", k=300), draw.choices("abc", [3, 4, 5], k=400)
    table = [[own.count(value) for value in "abc"] for own in (first, second)]
    assert one_law(first, second) == pytest.approx(chi2_contingency(table).pvalue)
    assert one_law(first, first) == pytest.approx(1.0)


def test_rare_values_are_one_cell():
    first, second = [*range(15), *["a"] * 50], [*range(100, 115), *["a"] * 50]
    assert one_law(first, second) == pytest.approx(1.0)
