"""Whole texts of the engine, plain against speculative, with other seeds: one law?

Four tokens may come, six are written. Chi-square of homogeneity over each pair of neighbours and over whole texts, rare
ones put together. Under `rejection` no text need be the plain one of its seed: only the law can be compared.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency
from tests.doubles import Fixed, RandomPacer, with_parts
from tests.engine.test_engine_laws import Branching
from tests.trees import with_trees

from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

LEVEL = 1e-4
DRAWS, LENGTH = 700, 6
PROMPT = [40, 17, 99, 5, 260, 33, 8, 140, 71, 206] * 4
ALLOWED = (40, 41, 42, 43)


def texts(llm: LLM, seed: int, temperature: float = 0.9) -> list[tuple[int, ...]]:
    """Many texts of one prompt."""
    gone = [token for token in range(300) if token not in ALLOWED]
    params = SamplingParams(
        max_tokens=LENGTH,
        temperature=temperature,
        n=DRAWS,
        seed=seed,
        suppress_tokens=gone,
        frequency_penalty=0.3,
    )
    return [out.token_ids for out in llm.generate(PROMPT, params)]


def p_of(first: list, second: list) -> float:
    """The chance of two samples as unlike as these from one law; what is rare in both together is one cell."""
    counts = Counter(first), Counter(second)
    common = [value for value, count in (counts[0] + counts[1]).items() if count >= 20]
    table = np.array([[*(own[value] for value in common), 0] for own in counts])
    table[:, -1] = [len(first) - table[0].sum(), len(second) - table[1].sum()]
    return float(chi2_contingency(table[:, table.sum(0) > 0]).pvalue)


def least_p(first: list[tuple[int, ...]], second: list[tuple[int, ...]]) -> float:
    """Over each pair of neighbours, and over whole texts."""
    views = [lambda text, at=at: text[at : at + 2] for at in range(LENGTH - 1)] + [lambda text: text]
    return min(p_of(list(map(view, first)), list(map(view, second))) for view in views)


@pytest.fixture(scope="module")
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=600, max_context=64).variant(budget_floor=8)


@pytest.fixture(scope="module")
def plain(llm):
    return texts(llm, 1)


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
    [("rejection", "sparse"), ("rejection", "mixing"), ("rejection", "fixed"), ("matched", "mixing"),
     ("matched", "trees"), ("coupled", "sparse"), ("coupled", "trees")],
    ids=lambda value: value,
)  # fmt: skip
def test_speculative_texts_are_plain_texts(llm, plain, rule, kind):
    assert least_p(plain, texts(variant(llm, rule, kind), 1_000_003)) >= LEVEL


def test_another_temperature_is_seen(llm, plain):
    """Teeth: what is no longer the same law is refused."""
    assert least_p(plain, texts(llm, 5, temperature=0.75)) < LEVEL


def test_shuffled_order_is_seen(plain):
    """Teeth: the same tokens in another order have the same counts and another law."""
    assert least_p(plain, [text[::-1] for text in plain]) < LEVEL
