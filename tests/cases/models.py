"""The models of the case list, and REF: plain decoding, one token at a time, each request alone.

M-tiny is the checkpoint of `tests.tiny`: weights of the kind that lesson 1 asks for, 6 query and 2 KV heads (lesson 3),
float32; its vocabulary is 300 and not 97, so that it has the 256 bytes and any text is its tokens. SmolLM2-135M is the
demo model.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

VOCAB = 300
GREEDY = SamplingParams(max_tokens=40, temperature=0.0)


def prompt(length: int, seed: object = 0) -> list[int]:
    """Random ids (no special token), the same for the same arguments."""
    return random.Random(f"cases {length} {seed}").choices(range(3, VOCAB), k=length)


def copied(length: int, seed: object = 0) -> list[int]:
    """A prompt whose second half is its first, so that LOOKUP has something to find."""
    half = prompt((length + 1) // 2, seed)
    return (half + half)[:length]


def narrow(params: SamplingParams = GREEDY, allowed: Sequence[int] = (40, 41, 42)) -> SamplingParams:
    """With few tokens that may be written, so that n-grams repeat and LOOKUP drafts, rightly and wrongly."""
    return replace(params, suppress_tokens=[token for token in range(VOCAB) if token not in allowed])


def plain(llm: LLM) -> LLM:
    """The same weights without speculation."""
    return llm.variant(
        drafter="none", pacer="fixed", draft_tokens=None, budget=None, budget_floor=None, acceptance="coupled"
    )


def ref(
    llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams | Sequence[SamplingParams] = GREEDY
) -> list[tuple[int, ...]]:
    """REF: the tokens of each prompt, decoded plainly and alone."""
    each = [params] * len(prompts) if isinstance(params, SamplingParams) else list(params)
    alone = plain(llm)
    return [alone.generate([ids], own)[0].token_ids for ids, own in zip(prompts, each, strict=True)]


def texts_of(llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams = GREEDY) -> list[tuple]:
    """Prompts and their REF outputs: what ORACLE and NOISY replay."""
    return list(zip(prompts, ref(llm, prompts, params), strict=True))


def smollm2(dtype: str = "float32", **options: object) -> LLM:
    """SmolLM2-135M, plainly decoding, in a context of 512; skips the test where it is not to be had."""
    given = {"drafter": "none", "pacer": "fixed", "max_context": 512, "max_batch_size": 4, "device": "cpu"} | options
    try:
        return LLM("demo", dtype=dtype, **given)
    except GlimpseError as error:
        pytest.skip(f"no demo model: {error}")
