"""A59, A60: who leaves frees row and pages at once; nobody else notices.

A client of the server that goes away (`tests/serve`) is a stream that is closed, at the level that a server uses.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.cases.doubles import HostDrafter, drafting, with_parts
from tests.cases.mini import mini
from tests.cases.models import GREEDY, prompt, ref, texts_of
from tests.cases.verdicts import eq, ledger

from glimpse import AsyncLLM

IDS = [prompt(length, "a59") for length in (20, 7, 33)]
PARAMS = replace(GREEDY, max_tokens=40)


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    return mini(tmp_path_factory.mktemp("cancel"), rows=2, max_context=128)


@pytest.mark.parametrize("name", ["NOISY", "LOOKUP", "SELF"])
def test_a59_fifty_streams_closed_after_three_tokens(llm, name):
    texts = texts_of(llm, IDS, PARAMS)
    fast = drafting(llm, name, texts)
    for turn in range(50):
        ids, text = texts[turn % 3]
        with ledger(fast):
            stream, read = fast.stream(ids, PARAMS), []
            while len(read) < 3:
                read += next(stream).token_ids
            stream.close()
        assert tuple(read) == text[: len(read)]
    eq(fast.generate(IDS, PARAMS), [text for _, text in texts])


WHEN = {"before the first": 0, "in the middle": 3, "after the last": 10**6}


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("name", ["NOISY", "SELF"])
def test_a59_a60_a_reader_that_goes_away_disturbs_nobody(llm, name, when):
    """Two rows, three readers, one of whom leaves: the others are served, and the thread goes on."""
    texts = texts_of(llm, IDS, PARAMS)
    fast = drafting(llm, name, texts)

    async def read(chunks, most=10**6):
        tokens = []
        async for chunk in chunks:
            tokens += chunk.token_ids
            if len(tokens) >= most:
                break
        await chunks.aclose()
        return tuple(tokens)

    async def leaves(served):
        task = asyncio.create_task(read(served.generate(IDS[0], PARAMS), WHEN[when] or 10**6))
        if not WHEN[when]:
            await asyncio.sleep(0)
            task.cancel()
        return await asyncio.gather(task, return_exceptions=True)

    async def work():
        async with AsyncLLM(fast) as served:
            _, *others = await asyncio.gather(leaves(served), *(read(served.generate(ids, PARAMS)) for ids in IDS[1:]))
            again = await read(served.generate(IDS[0], PARAMS))
            return others, again

    with ledger(fast):
        others, again = asyncio.run(asyncio.wait_for(work(), 60))
    assert others == [text for _, text in texts[1:]]
    assert again == texts[0][1]


class Raises(HostDrafter):
    """Fails at its third draft, once."""

    turns = 0

    def proposal(self, rows, slot, room):
        self.turns += 1
        if self.turns == 3:
            raise ValueError("boom")
        return []


def test_a60_what_a_reader_raises_does_not_end_the_engine(llm):
    """A step that raises ends the stream it served, with everything given back; the next request runs."""
    fast = with_parts(llm, Raises())
    with ledger(fast), pytest.raises(ValueError, match="boom"):
        list(fast.stream(IDS[0], PARAMS))
    eq(fast.generate([IDS[0]], PARAMS), ref(llm, [IDS[0]], PARAMS))
