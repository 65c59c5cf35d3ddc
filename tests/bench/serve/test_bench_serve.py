"""The load generator: moments, what clients see, the figures made of it, and a whole run on a server of our own."""

from __future__ import annotations

import asyncio
import json
import math
from itertools import pairwise

import pytest

from glimpse.bench.results import read_result
from glimpse.bench.serve.http import Address
from glimpse.bench.serve.load import Load, Seen, run
from glimpse.bench.serve.prompts import passages, questions
from glimpse.bench.serve.suite import targets_of, why
from glimpse.bench.serve.summary import Limits, summarise
from glimpse.errors import ArgumentError


def seen(due, first, last, tokens, **more) -> Seen:
    return Seen(due, due, first, last, tokens, 200, **more)


def test_moments_are_a_poisson_process_that_a_seed_repeats():
    load = Load(Address.of("http://a"), "/v1/completions", [{}], rate=50, seconds=100, seed=3)
    moments = load.arrivals()
    assert moments == load.arrivals()
    assert moments[0] == 0
    assert all(one < other < 100 for one, other in pairwise(moments))
    assert len(moments) == pytest.approx(5000, rel=0.05)
    gaps = [other - one for one, other in pairwise(moments)]
    assert sum(gap > 1 / 50 for gap in gaps) / len(gaps) == pytest.approx(math.exp(-1), abs=0.03)


def test_figures_by_hand():
    told = {"drafted": 8, "accepted": 4, "drafted_by_depth": [2, 2, 2, 2]}
    found = [
        seen(0.0, 0.5, 1.5, 11, speculation=told),  # ttft .5, 100 ms a token
        seen(1.0, 3.5, 4.5, 21),  # ttft 2.5: too late
        Seen(2.0, 2.0, None, 2.1, status=429),
        Seen(2.5, 2.5, None, 2.6, status=500, error="no"),
        Seen(3.0, 3.0, 3.1, 4.0, 5, 200, error="broke off"),
    ]
    total = summarise(found, Limits(ttft=2.0, tpot=0.11))
    assert (total.requests, total.ok, total.refused, total.failed) == (5, 2, 1, 2)
    assert total.seconds == 4.5
    assert total.tokens_per_s == pytest.approx(32 / 4.5)
    assert (total.goodput, total.kept) == (pytest.approx(1 / 4.5), 0.2)
    assert (total.ttft_p50, total.tpot_p50) == (pytest.approx(1.5), pytest.approx(0.075))
    assert (total.accepted, total.mean_accepted) == (0.5, 3.0)
    assert summarise([], Limits()).to_json()["ttft_p50"] is None


def test_the_first_failure_is_told_with_its_reason():
    found = [
        seen(0.0, 0.5, 1.5, 11),
        Seen(2.0, 2.0, None, 2.1, status=429, error="busy"),
        Seen(2.5, 2.5, None, 2.6, status=400, error="drafter:\nunknown name 'quick'"),
        Seen(3.0, 3.0, None, 4.0, error="EOFError"),
    ]
    assert why(found) == ", 2 failed: 400 drafter: unknown name 'quick'"
    assert why(found[:2]) == ""


def test_a_drafter_that_makes_a_load_slower_falls_short():
    runs = [{"rate": 1, "drafter": name, "failed": 0, "tokens_per_s": speed}
            for name, speed in (("none", 100.0), ("auto", 97.0), ("lookup", 120.0))]  # fmt: skip
    first, auto, lookup = targets_of(runs)
    assert (first.ok, auto.ok, lookup.ok) == (True, False, True)
    assert auto.value == 0.97


@pytest.mark.parametrize("url", ["ftp://a", "a:80", "", "http://", "http://[", "http://a:99999999"])
def test_wrong_addresses(url):
    with pytest.raises(ArgumentError, match="--url"):
        Address.of(url)


def test_addresses():
    assert Address.of("https://a/x/v1/") == Address("a", 443, "/x", True)
    assert Address.of("http://127.0.0.1:9/v1", "k").head("GET", "/v1/models", 0).split(b"\r\n")[0] == (
        b"GET /v1/models HTTP/1.1"
    )


def test_prompts(tmp_path):
    assert len(passages(None, 1000)) > 100
    file = tmp_path / "a.jsonl"
    file.write_text('{"turns": ["one", "two"]}\n{"prompt": "three"}\n')
    assert questions(file) == ["one", "three"]
    file.write_text('{"no": 1}')
    with pytest.raises(ArgumentError, match="--questions"):
        questions(file)


def served_by(answer: bytes, load_of):
    """Runs a load against a server that says only `answer`."""

    async def work():
        async def talk(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await run(load_of(Address("127.0.0.1", port, "", False)))

    return asyncio.run(asyncio.wait_for(work(), 30))


@pytest.mark.parametrize(
    ("answer", "status", "named"),
    [
        (b"", 0, "EOFError"),
        (b"HTTP/1.1 429 No\r\nContent-Length: 4\r\n\r\nbusy", 429, "busy"),
        (b"HTTP/1.1 200 OK\r\n\r\ndata: {\n\n", 200, "JSONDecodeError"),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\ndata: {"error": "it broke off"}\n\n\r\n0\r\n\r\n',
         200, "broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n99\r\ndata", 200, "IncompleteReadError"),
    ],
)  # fmt: skip
def test_servers_that_fail(answer, status, named):
    (found,) = served_by(answer, lambda address: Load(address, "/v1/completions", [{}], rate=0.01, seconds=0.1))
    assert (found.status, found.ok) == (status, False)
    assert named in found.error


def test_a_whole_run_on_a_server_of_our_own(tiny_folder, tmp_path, capsys):
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    from tests.serve.server import running

    from glimpse.cli.app import run as glimpse
    from glimpse.llm import LLM

    llm = LLM(tiny_folder, drafter="lookup", pacer="fixed", draft_tokens=3, max_batch_size=4, device="cpu")
    with running(llm) as server:
        argv = ["bench", "serve", "--url", server.url, "--rate", "20,40", "--seconds", "0.4", "--max-tokens", "6",
                "--characters", "40", "--drafters", "none,lookup", "--out", str(tmp_path), "--json",
                "--quiet"]  # fmt: skip
        assert glimpse(argv) == 0
        told = json.loads(capsys.readouterr().out)
        assert glimpse([*argv[:-2], "--completion", "--temperature", "0", "--quiet"]) == 0
    runs = told["runs"]
    assert [(one["rate"], one["drafter"]) for one in runs] == [
        (20, "none"),
        (20, "lookup"),
        (40, "none"),
        (40, "lookup"),
    ]
    for one in runs:
        assert one["failed"] == one["refused"] == 0
        assert all(request["tokens"] == 6 and request["speculation"] for request in one["seen"])
        assert 0 < one["ttft_p50"] <= one["ttft_p99"]
    assert read_result(tmp_path / "cpu-serve.json").settings["path"] == "/v1/completions"


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--rate", "0"], "--rate '0'"),
        (["--rate", "fast"], "'fast'"),
        (["--seconds", "0"], "--seconds 0"),
        (["--url", "nowhere"], "--url 'nowhere'"),
        (["--questions", "nothing.jsonl"], "--questions"),
        (["--questions", "a", "--text", "b"], "leave --text"),
        (["--characters", "0"], "--characters 0"),
        (["--commit", "x"], "commit 'x'"),
    ],
)
def test_wrong_options(argv, named, capsys):
    from glimpse.cli.app import run as glimpse

    assert glimpse(["bench", "serve", *argv]) == 2
    assert named in capsys.readouterr().err


def test_no_server(capsys):
    from glimpse.cli.app import run as glimpse

    assert glimpse(["bench", "serve", "--url", "http://127.0.0.1:9"]) == 1
    assert "no OpenAI-compatible server at 127.0.0.1:9" in capsys.readouterr().err
