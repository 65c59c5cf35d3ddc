"""Text that cannot fit is refused before it is split into tokens, which would take seconds and much memory."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.hostile.options import folder, tiny

from glimpse import AsyncLLM, SamplingParams
from glimpse.errors import ArgumentError

FEW = SamplingParams(max_tokens=2, seed=1)
HUGE = 40_000_000
SAID = "characters, more than 128 tokens can hold"


async def served(text):
    async with AsyncLLM(tiny()) as llm:
        await anext(llm.generate(text, FEW))


CALLS = {
    "generate": lambda text: tiny().generate(text, FEW),
    "stream": lambda text: next(tiny().stream(text, FEW)),
    "compare": lambda text: tiny().compare(text, FEW),
    "chat": lambda text: tiny().chat([{"role": "user", "content": text}], FEW),
    "role": lambda text: tiny().chat([{"role": text, "content": "hi"}], FEW),
    "async": lambda text: asyncio.run(served(text)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("piece", ["a", " ", "\0", "<|im_end|>", "é"])
def test_huge_texts_are_refused_at_once(call, piece):
    text = piece * (HUGE // len(piece))
    begun = time.thread_time()
    with pytest.raises(ArgumentError, match=SAID):
        CALLS[call](text)
    assert time.thread_time() - begun < 1


@pytest.mark.parametrize("length", [1, 100, 127, 128])
def test_what_fits_is_never_too_long(length):
    """Up to as many of the longest token as the context takes."""
    llm = tiny()
    longest = max((llm.tokenizer.decode([token]) for token in range(3, 300)), key=len)
    text = longest * length
    if len(llm.tokenizer.encode(text)) <= 128:
        assert llm.generate(text, FEW)[0].usage.prompt_tokens <= 128


def test_a_little_too_long_is_told_in_tokens():
    with pytest.raises(ArgumentError, match="the prompt has 129 tokens but the context only 128"):
        tiny().generate([5] * 129, FEW)
    with pytest.raises(ArgumentError, match=r"the prompt has \d+ tokens but the context only 128"):
        tiny().generate("zq" * 150, FEW)
    assert folder().is_dir()
