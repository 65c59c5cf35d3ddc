"""What a request may ask of the engine, and what it is told where the cache or the promise of exactness is short."""

from __future__ import annotations

import re

import pytest
from tests.adapters import write_random_adapter
from tests.serve.server import running

from glimpse.drafting.block import shipped
from glimpse.engine.options import EngineOptions
from glimpse.errors import ArgumentError
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


def test_blocks_may_be_asked_for_where_an_adapter_comes_with_the_model(llm, tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    adapter = write_random_adapter(tmp_path / "tiny.safetensors", llm)
    assert options(llm, drafter="block").adapter == str(adapter)
    with running(llm) as server:
        status, body = server.client.post(PATH, SHORT | {"drafter": "block"})
        assert (status, body["usage"]["speculation"]["drafter"]) == (200, "block")


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"drafter": "magic"}, "drafter"),
        ({"drafter": "block"}, "drafter"),
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
        told = body["usage"]["speculation"]
        assert (status, told["lossless"], told["lossy"], told["trusted"]) == (200, False, "top-k:4", 0)
        _, body = server.client.post(PATH, SHORT)
        assert not {"lossless", "lossy", "relaxed", "trusted"} & {*body["usage"]["speculation"]}


def test_metrics_tell_lossy_tokens_apart(llm):
    """Strengths are the clients' to choose: a label for each would have no end."""
    with running(llm, allow_lossy=True) as server:
        for asked in ({}, {"lossy": "top-k:4"}, {"lossy": "top-k:3"}, {"lossy": "slowfast", "drafter": "slowfast"}):
            status, body = server.client.post(PATH, SHORT | asked)
            assert status == 200, body
        lines = re.findall(r"^glimpse:lossy_(\w+)_total{(.*)} (\S+)$", server.client.get("/metrics")[1], re.MULTILINE)
        labels = [dict(re.findall(r'(\w+)="([^"]*)"', text)) for _, text, _ in lines]
        found = {
            (name, own["drafter"], own["lossy"]): float(count)
            for (name, _, count), own in zip(lines, labels, strict=True)
        }
        trusted = body["usage"]["speculation"]["trusted"]
        assert trusted > 0
        assert found.pop(("passed_tokens", "sparse", "top-k")) >= 0
        assert found == {
            ("tokens", "sparse", "top-k"): 6, ("tokens", "slowfast", "slowfast"): 3,
            ("passed_tokens", "slowfast", "slowfast"): trusted,
        }  # fmt: skip


def test_a_server_with_a_lossy_mode_of_its_own(tiny_folder):
    """Whoever started it chose the mode: requests get it, or an exact rule by name, but no other lossy mode."""
    loose = LLM(tiny_folder, lossy="top-k:3", drafter="sparse", pacer="fixed", budget_floor=16, device="cpu")
    assert options(loose).lossy == options(loose, max_draft=3).lossy == "top-k:3"
    exact = options(loose, acceptance="coupled")
    assert (exact.lossy, exact.acceptance, exact.drafter) == (None, "coupled", "sparse")
    assert options(loose, drafter="lookup").lossy is None
    with pytest.raises(ArgumentError, match=r"lossy 'top-k:4' changes the text; this server was not started with"):
        options(loose, lossy="top-k:4")
    with pytest.raises(ArgumentError, match="leave one of them out"):
        options(loose, lossy="top-k:3", acceptance="coupled")


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
