"""What the tests of `LLM` ask, and an LLM whose cache is soon full."""

from __future__ import annotations

from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

GREEDY = SamplingParams(max_tokens=12, temperature=0.0)
IDS = list(range(40, 140))


def small(folder, **options) -> LLM:
    """One row, a cache of exactly one context of 128 tokens."""
    return LLM(folder, **{"max_batch_size": 1, "max_context": 128} | options).variant(budget_floor=8)
