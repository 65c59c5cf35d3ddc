"""What crosses from the engine's thread to event loops: all of it, in order, in one piece a step; readers may pause."""

from __future__ import annotations

import asyncio
import threading

import pytest

from glimpse.engine.commit import Commit
from glimpse.engine.outbox import End, Inbox, Outbox
from glimpse.engine.request import Progress


class Asked:
    """A request, as far as boxes know it."""


def told(request, number):
    return Progress(request, Commit((number,), ("",)), 0)


def numbers(items):
    return [item.commit.token_ids[0] for item in items if isinstance(item, Progress)]


def at_once():
    return 0.0


def lost_nobody(request):
    raise AssertionError("its event loop is open")


def run(work):
    return asyncio.run(asyncio.wait_for(work(), 10))


def test_a_step_wakes_each_loop_once_whatever_it_brings(monkeypatch):
    async def work():
        loop, woken = asyncio.get_running_loop(), []
        usual = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *call: (woken.append(call), usual(*call)))
        outbox, inboxes, requests = Outbox(lost_nobody), [Inbox(at_once) for _ in range(3)], [Asked() for _ in range(3)]
        for number in range(2):
            for inbox, request in zip(inboxes, requests, strict=True):
                outbox.put(inbox, told(request, number))
        outbox.flush()
        outbox.flush()
        assert len(woken) == 1
        return [numbers(await inbox.take()) for inbox in inboxes]

    assert run(work) == [[0, 1]] * 3


def test_what_comes_from_another_thread_comes_whole_and_in_order():
    async def work():
        inbox, request, found = Inbox(at_once), Asked(), []
        outbox = Outbox(lost_nobody)

        def write():
            for number in range(5000):
                outbox.put(inbox, told(request, number))
                if number % 7 == 0:
                    outbox.flush()
            outbox.put(inbox, End(request, None))
            outbox.flush()

        writer = threading.Thread(target=write)
        writer.start()
        while not found or not isinstance(found[-1], End):
            found += await inbox.take()
        writer.join()
        return numbers(found)

    assert run(work) == list(range(5000))


def test_who_pauses_gets_the_beginning_and_the_end_at_once_and_the_rest_together():
    async def work():
        inbox, request, other = Inbox(lambda: 3600.0), Asked(), Asked()
        inbox.put(told(request, 0))
        assert numbers(await inbox.take()) == [0]
        inbox.put(told(request, 1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(inbox.take(), 0.05)
        inbox.put(told(other, 2))
        assert numbers(await inbox.take()) == [1, 2]
        inbox.put(told(other, 3))
        inbox.put(End(request, None))
        return numbers(await inbox.take())

    assert run(work) == [3]


def test_a_pause_is_over_by_itself():
    async def work():
        inbox, request = Inbox(lambda: 0.05), Asked()
        inbox.put(told(request, 0))
        await inbox.take()
        begun = asyncio.get_running_loop().time()
        inbox.put(told(request, 1))
        inbox.put(told(request, 2))
        assert numbers(await inbox.take()) == [1, 2]
        return asyncio.get_running_loop().time() - begun

    assert run(work) < 5


def test_a_closed_loop_is_told_as_lost_once_a_request():
    async def made():
        return Inbox(at_once)

    gone, request, other = asyncio.run(made()), Asked(), Asked()
    lost = []
    outbox = Outbox(lost.append)
    for one in (request, request, other):
        outbox.put(gone, told(one, 1))
    outbox.flush()
    assert set(lost) == {request, other}
    assert len(lost) == 2
