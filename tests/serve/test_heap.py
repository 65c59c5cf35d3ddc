"""What is there when a server begins is in no collection, and a way of decoding that goes frees what it held."""

from __future__ import annotations

import gc
import weakref

import pytest
from tests.serve.server import running

from glimpse.llm import LLM
from glimpse.serve.heap import Heap

PATH, SHORT = "/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 3, "temperature": 0}


@pytest.fixture(scope="module")
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="none", pacer="fixed", device="cpu")


@pytest.fixture
def thawed():
    """As a program is that freezes nothing itself, which tests do."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


class Ring:
    """In a cycle with itself."""

    def __init__(self):
        self.own = self


@pytest.mark.usefixtures("thawed")
def test_what_is_alive_is_frozen_and_what_is_not_is_freed():
    heap, kept, ring = Heap(), Ring(), Ring()
    gone = weakref.ref(ring)
    heap.settle()
    assert gc.get_freeze_count() > 100_000
    assert not any(one is kept for one in gc.get_objects())
    del ring
    gc.collect()
    assert gone() is not None, "frozen: collections do not look at it"
    heap.settle()
    assert gone() is None
    heap.release()
    assert gc.get_freeze_count() == 0


def test_a_program_that_froze_objects_itself_is_left_to_that():
    frozen = gc.get_freeze_count()
    assert frozen > 0, "tests do"
    heap = Heap()
    heap.settle()
    assert gc.get_freeze_count() == frozen
    heap.release()
    assert gc.get_freeze_count() == frozen


@pytest.mark.usefixtures("thawed")
def test_two_servers_of_a_process_free_what_the_other_froze_and_freeze_without_it():
    first, ring = Heap(), Ring()
    gone = weakref.ref(ring)
    first.settle()
    second = Heap()
    del ring
    second.settle()
    assert gone() is None, "such as an engine of the second's, which has to go before a new one"
    first.release()
    assert gc.get_freeze_count() == 0
    second.settle()
    assert gc.get_freeze_count() > 100_000
    first.release()
    assert gc.get_freeze_count() > 100_000, "it had let go already"
    second.release()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("thawed")
def test_a_server_freezes_its_heap_and_a_way_that_goes_is_freed(llm):
    with running(llm, max_ways=2) as server:
        assert gc.get_freeze_count() > 100_000
        gone = []
        for drafter in ("lookup", "racer", "suffix"):
            status, _ = server.client.post(PATH, SHORT | {"drafter": drafter})
            assert status == 200
            gone += [weakref.ref(engine.llm._engine) for engine in server.served.ways.engines[1:]]
        assert [one() is None for one in gone] == [True, True, False]
    assert gc.get_freeze_count() == 0
