"""`AsyncLLM`: many requests of one event loop; who leaves, fails or closes disturbs nobody, and nothing is left."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from glimpse import AsyncLLM
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams
from tests.doubles import HostDrafter, with_parts

DRAW = random.Random(4)
PROMPTS = [DRAW.choices(range(3, 300), k=length) for length in (5, 40, 1, 90, 17, 33)]
PARAMS = [SamplingParams(max_tokens=10 + index, temperature=0.8, seed=index) for index in range(len(PROMPTS))]
LONG = SamplingParams(max_tokens=400, temperature=0.0)


@pytest.fixture
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="lookup", pacer="fixed", draft_tokens=3, max_batch_size=3)


@pytest.fixture(autouse=True)
def nothing_left(llm):
    yield
    pool, parts = llm.loaded.pool, llm._engine.parts
    assert (pool.free_pages, pool.promised, int(pool._wished.sum())) == (pool.pages, 0, 0)
    assert len(parts.rows.free_slots()) == 3
    assert not llm._engine.busy


async def read(chunks):
    return [chunk async for chunk in chunks]


def opened(llm, work):
    """Runs `work(AsyncLLM)`, an async function, and closes."""

    async def run():
        async with AsyncLLM(llm) as served:
            found = await work(served)
            assert not served._runs
            return found

    return asyncio.run(asyncio.wait_for(run(), 60))


def test_many_at_once_are_as_if_alone(llm):
    right = [llm.generate([ids], params)[0] for ids, params in zip(PROMPTS, PARAMS, strict=True)]

    async def work(served):
        pairs = zip(PROMPTS, PARAMS, strict=True)
        return await asyncio.gather(*(read(served.generate(ids, params)) for ids, params in pairs))

    for chunks, expected in zip(opened(llm, work), right, strict=True):
        output = chunks[-1].output
        assert output.token_ids == expected.token_ids
        assert output.finish_reason == "length"
        assert "".join(chunk.text for chunk in chunks) == output.text == expected.text
        assert tuple(token for chunk in chunks for token in chunk.token_ids) == output.token_ids
        assert all(chunk.output is None for chunk in chunks[:-1])


def test_text_prompts_and_seeds_in_the_order_of_asking(tiny_folder):
    """Requests without a seed draw alike in both faces when the LLM has one."""
    params = SamplingParams(max_tokens=8, temperature=1.0)
    right = [out.token_ids for out in LLM(tiny_folder, seed=9).generate(["hello", "a b"], params)]

    async def work():
        async with AsyncLLM(tiny_folder, seed=9) as served:
            return await asyncio.gather(read(served.generate("hello", params)), read(served.generate("a b", params)))

    assert [chunks[-1].output.token_ids for chunks in asyncio.run(work())] == right


def test_leaving_an_iterator_cancels_its_request(llm):
    """By a break, by a cancelled task, while waiting for a row: the others go on."""
    right = llm.generate([PROMPTS[0]], PARAMS[0])[0].token_ids

    async def work(served):
        chunks = served.generate(PROMPTS[1], LONG)
        await anext(chunks)
        await chunks.aclose()
        tasks = [asyncio.create_task(read(served.generate(ids, LONG))) for ids in PROMPTS]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        found = await read(served.generate(PROMPTS[0], PARAMS[0]))
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(error, asyncio.CancelledError) for error in ended)
        return found

    assert opened(llm, work)[-1].output.token_ids == right


def test_an_abort_gives_what_there_is(llm):
    right = llm.generate([PROMPTS[1]], LONG)[0]

    async def work(served):
        chunks = served.generate(PROMPTS[1], LONG, request_id="mine")
        found = [await anext(chunks)]
        with pytest.raises(ArgumentError, match="'mine' is in use"):
            await anext(served.generate(PROMPTS[0], request_id="mine"))
        assert served.abort("mine")
        found += await read(chunks)
        assert not served.abort("mine")
        return found

    chunks = opened(llm, work)
    output = chunks[-1].output
    assert output.finish_reason == "abort"
    assert 0 < len(output.token_ids) < len(right.token_ids)
    assert output.token_ids == right.token_ids[: len(output.token_ids)]
    assert "".join(chunk.text for chunk in chunks) == output.text


def test_an_abort_before_the_first_step(llm):
    async def work(served):
        task = asyncio.create_task(read(served.generate(PROMPTS[1], LONG, request_id="mine")))
        await asyncio.sleep(0)
        assert served.abort("mine")
        return await task

    (chunk,) = opened(llm, work)[-1:]
    assert chunk.output.finish_reason == "abort"
    assert chunk.output.token_ids == ()


def test_a_wrong_request_fails_alone(llm):
    right = llm.generate([PROMPTS[0]], PARAMS[0])[0].token_ids

    async def work(served):
        good = read(served.generate(PROMPTS[0], PARAMS[0]))
        bad = [read(served.generate(prompt, params)) for prompt, params in (([], None), ([5], SamplingParams(n=2)))]
        return await asyncio.gather(good, *bad, return_exceptions=True)

    good, *bad = opened(llm, work)
    assert good[-1].output.token_ids == right
    assert all(isinstance(error, ArgumentError) for error in bad)


class Raising(HostDrafter):
    """Fails once: when it drafts for the third row, so that three requests are under way."""

    def __init__(self):
        super().__init__()
        self.slots, self.failed = set(), False

    def proposal(self, rows, slot, room):
        self.slots.add(slot)
        if len(self.slots) == 3 and not self.failed:
            self.failed = True
            raise ValueError("boom")
        return []


def test_a_step_that_fails_ends_all_and_the_next_request_runs(llm):
    right = llm.generate([PROMPTS[0]], PARAMS[0])[0].token_ids

    async def work(served):
        pairs = zip(PROMPTS[:3], PARAMS, strict=False)
        failed = await asyncio.gather(*(read(served.generate(*pair)) for pair in pairs), return_exceptions=True)
        assert all(isinstance(error, GlimpseError) and "boom" in str(error) for error in failed), failed
        assert len({id(error) for error in failed}) == 3
        assert all(isinstance(error.__cause__, ValueError) for error in failed), "where it failed is lost"
        return await read(served.generate(PROMPTS[0], PARAMS[0]))

    assert opened(with_parts(llm, Raising(), draft_tokens=3), work)[-1].output.token_ids == right


class Forgetful(HostDrafter):
    """Cannot learn."""

    def absorb(self, rows, outcomes):
        raise ValueError("boom")


def test_a_step_that_fails_behind_the_last_token_leaves_no_row(llm):
    async def work(served):
        return await asyncio.gather(
            *(read(served.generate(PROMPTS[0], SamplingParams(max_tokens=1))) for _ in range(2)), return_exceptions=True
        )

    broken = with_parts(llm, Forgetful(), draft_tokens=3)
    assert [chunks[-1].output.usage.completion_tokens for chunks in opened(broken, work)] == [1, 1]
    assert len(broken._engine.parts.rows.free_slots()) == 3
    assert not broken._engine.busy


@pytest.mark.parametrize("seed", range(3))
def test_who_comes_and_goes_at_random_disturbs_nobody(llm, seed):
    """Tasks cancelled and requests aborted after a random time; all others as if alone."""
    draw = random.Random(seed)
    jobs = [
        (draw.choices(range(3, 300), k=draw.choice((1, 9, 60, 150))),
         SamplingParams(max_tokens=draw.randint(1, 30), temperature=0.9, seed=index))
        for index in range(16)
    ]  # fmt: skip
    right = [llm.generate([ids], params)[0].token_ids for ids, params in jobs]

    async def leave(served, index, task):
        await asyncio.sleep(draw.random() / 5)
        if index % 2:
            task.cancel()
        else:
            served.abort(str(index))

    async def one(served, index):
        await asyncio.sleep(draw.random() / 20)
        task = asyncio.create_task(read(served.generate(*jobs[index], request_id=str(index))))
        leaving = asyncio.create_task(leave(served, index, task)) if index % 4 < 2 else None
        try:
            return (await task)[-1].output
        except asyncio.CancelledError:
            return None
        finally:
            if leaving is not None:
                await leaving

    async def work(served):
        return await asyncio.gather(*(one(served, index) for index in range(len(jobs))))

    for index, (output, expected) in enumerate(zip(opened(llm, work), right, strict=True)):
        if index % 4 > 1:
            assert output.finish_reason == "length"
        if output is not None and output.finish_reason == "length":
            assert output.token_ids == expected
        elif output is not None:
            assert output.token_ids == expected[: len(output.token_ids)]


def test_closing_ends_everything(llm):
    async def work():
        served = AsyncLLM(llm)
        tasks = [asyncio.create_task(read(served.generate(ids, LONG))) for ids in PROMPTS]
        await asyncio.sleep(0.05)
        await served.close()
        await served.close()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert "closed" in str(error)
        with pytest.raises(GlimpseError, match="closed"):
            await anext(served.generate(PROMPTS[0]))

    asyncio.run(work())
    assert len(llm.generate([PROMPTS[0]], PARAMS[0])[0].token_ids) == 10, "the LLM itself is still open"


def test_the_loop_goes_on_while_the_engine_steps(llm):
    """Nothing waits for a step but the worker's thread."""

    async def work(served):
        turns = 0
        task = asyncio.create_task(read(served.generate(PROMPTS[0], LONG)))
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert opened(llm, work) > 50


def test_a_loop_that_is_closed_leaves_no_name_behind(llm):
    served = AsyncLLM(llm)
    loop = asyncio.new_event_loop()
    texts = served.generate(PROMPTS[0], SamplingParams(max_tokens=60, ignore_eos=True), request_id="x")
    loop.run_until_complete(anext(texts))
    loop.close()
    until = time.monotonic() + 10
    while served.running and time.monotonic() < until:
        time.sleep(0.01)
    assert served.running == 0
    assert len(asyncio.run(read(served.generate(PROMPTS[0], SamplingParams(max_tokens=2), request_id="x")))) > 0
    asyncio.run(served.close())


def test_options_of_a_loaded_llm_are_refused(llm):
    with pytest.raises(ArgumentError, match="max_context: an LLM that is loaded"):
        AsyncLLM(llm, max_context=8)
