"""What a request may ask of the engine, and what it is told where the cache or the promise of exactness is short."""

from __future__ import annotations

import pytest
from tests.serve.server import running

from glimpse.engine.options import EngineOptions
from glimpse.llm import LLM
from glimpse.serve.schemas import CompletionBody
from glimpse.serve.settings import ServeSettings
from glimpse.serve.ways import Ways

PATH, SHORT = "/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 3, "temperature": 0}


@pytest.fixture(scope="module")
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="sparse", pacer="fixed", draft_tokens=3, budget_floor=16, device="cpu")


def options(llm, **asked) -> EngineOptions:
    return Ways(llm, ServeSettings(name="tiny")).options_of(CompletionBody(prompt="a", **asked))


def test_what_is_left_out_is_the_servers_own(llm):
    assert options(llm) == llm.options
    same = options(llm, drafter="sparse", max_draft=5)
    assert (same.pacer, same.draft_tokens, same.budget_floor) == ("fixed", 5, 16)
    other = options(llm, drafter="lookup")
    assert (other.pacer, other.draft_tokens, other.budget_floor) == (None, None, None)
    assert options(llm, acceptance="matched").drafter == "sparse"


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"drafter": "magic"}, "drafter"),
        ({"pacer": "magic"}, "pacer"),
        ({"acceptance": "magic"}, "acceptance"),
        ({"drafter": "none", "max_draft": 3}, "max_draft"),
        ({"drafter": "auto", "pacer": "fixed"}, "pacer"),
        ({"drafter": "racer", "acceptance": "rejection"}, "acceptance"),
        ({"max_draft": 999}, "max_draft"),
    ],
)
def test_what_does_not_go_together_is_named(llm, asked, param):
    with running(llm) as server:
        status, body = server.client.post(PATH, SHORT | asked)
        assert (status, body["error"]["param"]) == (400, param)
        assert server.client.post(PATH, SHORT)[0] == 200


def test_a_mode_that_changes_the_text_is_only_there_where_the_server_allows_it(llm):
    with running(llm) as server:
        status, body = server.client.post(PATH, SHORT | {"lossy": "top-k:4"})
        assert (status, "--allow-lossy" in body["error"]["message"]) == (400, True)
        status, body = server.client.post(PATH, SHORT | {"acceptance": "top-k"})
        assert (status, body["error"]["param"]) == (400, "acceptance")
    with running(llm, allow_lossy=True) as server:
        status, body = server.client.post(PATH, SHORT | {"lossy": "top-k:4"})
        assert (status, body["usage"]["speculation"]["lossless"]) == (200, False)
        _, body = server.client.post(PATH, SHORT)
        assert "lossless" not in body["usage"]["speculation"]


def test_a_cache_that_others_hold_is_a_503(llm):
    pool = llm.loaded.pool
    with running(llm) as server:
        taken = pool.allocate(pool.free_pages, 0)
        try:
            status, headers, body = server.client.raw("POST", PATH, SHORT)
            assert (status, headers["retry-after"], b"positions of cache" in body) == (503, "1", True)
        finally:
            pool.release(taken)
        assert server.client.post(PATH, SHORT)[0] == 200
