"""Who leaves frees everything at once; who is too many, too late, too large or unknown is told so."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.serve.client import Client, value
from tests.serve.server import running, until

import glimpse
from glimpse.llm import LLM
from glimpse.serve import answer

LONG = {"prompt": "the sea", "max_tokens": 480, "temperature": 0}
SHORT = {"prompt": "the sea", "max_tokens": 3, "temperature": 0}
PATH = "/v1/completions"


@pytest.fixture(scope="module")
def slow_llm(tiny_folder):
    """One row, and plain steps."""
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=1, device="cpu")


def test_a_client_that_goes_is_aborted_within_a_step(slow_llm, monkeypatch):
    steps, gone, at = slow_llm._engine, answer._gone, []

    async def noted(receive):
        await gone(receive)
        at.append(steps.steps)

    monkeypatch.setattr(answer, "_gone", noted)
    with running(slow_llm) as server:
        for stream in (True, False):
            if stream:
                parts = server.client.stream(PATH, LONG)
                next(parts)
                parts.close()
            else:
                leave_early(server)
            until(lambda: not steps.busy, "it goes on")
            assert steps.steps - at[-1] <= 2, "the step that was running, and one at most"
        assert value(server.client.get("/metrics")[1], "request_disconnected_total") == len(at) == 2


def leave_early(server) -> None:
    import http.client
    import json

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("POST", PATH, json.dumps(LONG), {"Content-Type": "application/json"})
    until(lambda: server.llm._engine.busy, "it did not begin")
    connection.close()


def test_too_many_get_a_429_and_come_back_later(slow_llm):
    with running(slow_llm, max_waiting=1) as server:
        first, second = (server.client.stream(PATH, LONG) for _ in range(2))
        next(first)
        thread = threading.Thread(target=lambda: next(second))
        thread.start()
        until(lambda: server.served.gate.active == 2, "the second did not wait")
        status, headers, body = server.client.raw("POST", PATH, SHORT)
        assert (status, b"2 texts are under way" in body) == (429, True)
        assert 1 <= int(headers["retry-after"]) <= 60
        metrics = server.client.get("/metrics")[1]
        assert 'glimpse:num_requests_running{model_name="tiny"} 1.0' in metrics
        assert 'glimpse:num_requests_waiting{model_name="tiny"} 1.0' in metrics
        first.close()
        thread.join()
        second.close()
        until(lambda: server.served.gate.active == 0, "they are still there")
        assert server.client.post(PATH, SHORT)[0] == 200
        status, body = server.client.post(PATH, SHORT | {"n": 3})
        assert (status, body["error"]["param"]) == (400, "n")


def test_a_request_that_takes_too_long_is_ended(slow_llm):
    with running(slow_llm, request_seconds=0.05) as server:
        status, body = server.client.post(PATH, LONG)
        assert (status, body["error"]["code"]) == (504, "timeout")
        *_, last = server.client.stream(PATH, LONG)
        assert last["error"]["code"] == "timeout"


def test_keys(slow_llm):
    with running(slow_llm, api_keys=("secret-one", "two")) as server:
        assert server.client.get("/v1/models")[0] == 200
        assert Client(server.port, ["two"]).get("/v1/models")[0] == 200
        for key in ("", "secret", "secret-one2", "SECRET-ONE", "\xff"):
            status, headers, body = Client(server.port).raw(
                "GET", "/v1/models", None, {"Authorization": f"Bearer {key}"}
            )
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
            assert b"secret" not in body
        assert Client(server.port).post(PATH, SHORT)[0] == 401
        assert Client(server.port).get("/metrics")[0] == 401
        assert Client(server.port).get("/health") == (200, {"status": "ok"})
        assert Client(server.port).get("/v1/models", {"Authorization": "Basic two"})[0] == 401


def test_large_bodies_and_other_types_are_refused(slow_llm):
    with running(slow_llm, max_body=1000) as server:
        assert server.client.post(PATH, SHORT | {"prompt": "a" * 2000})[0] == 413
        assert server.client.post(PATH, (b"x" * 400 for _ in range(9)))[0] == 413, "of unknown length"
        status, body = server.client.post(PATH, SHORT, {"Content-Type": "text/plain"})
        assert (status, body["error"]["param"]) == (415, "Content-Type")
        assert server.client.post(PATH, SHORT)[0] == 200


def test_no_origin_may_call_but_those_named(slow_llm):
    asks = {"Origin": "http://page.test", "Access-Control-Request-Method": "POST"}
    with running(slow_llm) as server:
        status, headers, _ = server.client.raw("OPTIONS", PATH, None, asks)
        assert status == 405
        assert not [name for name in headers if name.lower().startswith("access-control")]
    with running(slow_llm, allow_origins=("http://page.test",), api_keys=("k",)) as server:
        status, headers, _ = Client(server.port).raw("OPTIONS", PATH, None, asks)
        assert (status, headers["access-control-allow-origin"]) == (200, "http://page.test")


def test_the_access_log_has_no_prompt(slow_llm, caplog):
    with caplog.at_level(logging.INFO), running(slow_llm) as server:
        server.client.post(PATH + "?prompt=whisper", SHORT | {"prompt": "whisper"})
        server.client.post(PATH, SHORT | {"prompt": "whisper", "temperature": "hot whisper"})
    lines = [record.getMessage() for record in caplog.records if record.name == "glimpse.access"]
    assert [line.split()[1:4] for line in lines] == [["POST", PATH, "200"], ["POST", PATH, "400"]]
    assert "whisper" not in caplog.text


def test_what_is_asked_of_many_drafters_at_once(slow_llm):
    """Only so many ways of decoding are kept; an idle one gives way, one at work does not."""
    with running(slow_llm, max_ways=2) as server:
        for drafter in ("lookup", "racer", "suffix", "none"):
            status, body = server.client.post(PATH, SHORT | {"drafter": drafter})
            assert (status, body["usage"]["speculation"]["drafter"]) == (200, drafter)
        assert len(server.served.ways.engines) == 2
        held = server.client.stream(PATH, LONG | {"drafter": "lookup"})
        next(held)
        status, headers, _ = server.client.raw("POST", PATH, SHORT | {"drafter": "racer"})
        assert (status, "retry-after" in headers) == (429, True)
        held.close()


def test_aborts_at_random_leave_nothing(endless_llm):
    draw = random.Random(5)

    def come_and_go(server, number):
        body = {"prompt": "abc " * draw.randint(1, 40), "max_tokens": draw.randint(1, 200), "seed": number}
        body["drafter"] = ("lookup", "none", "racer")[number % 3]
        parts = server.client.stream(PATH, body)
        for _ in range(draw.randint(0, 6)):
            next(parts, None)
        parts.close()

    with running(endless_llm) as server:
        threads = [threading.Thread(target=come_and_go, args=(server, number)) for number in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: server.served.gate.active == 0, "some are left")
        tasks = [task for task in asyncio.all_tasks(server.loop) if "merge" in repr(task.get_coro())]
        assert not tasks


def test_sigterm_finishes_what_is_under_way(tiny_folder):
    """In a process of its own: a stream goes on to its end, nothing new is taken, and the exit code is 0."""
    command = [sys.executable, "-m", "glimpse", "serve", "-m", str(tiny_folder), "--port", "0", "--device", "cpu",
               "--drafter", "none", "--threads", "1"]  # fmt: skip
    env = os.environ | {"PYTHONPATH": str(Path(glimpse.__file__).parents[1])}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        port = int(process.stdout.readline().rsplit(":", 1)[1])
        client = Client(port)
        until(lambda: ready(client), "it does not answer")
        parts = client.stream(PATH, LONG)
        seen = [next(parts)]
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        assert not ready(client), "it takes new requests"
        seen += parts
        assert seen[-1]["choices"][0]["finish_reason"] == "length"
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def ready(client) -> bool:
    try:
        return client.get("/health")[0] == 200
    except OSError:
        return False


def test_what_does_not_finish_is_handed_back(slow_llm):
    with running(slow_llm, drain_seconds=0.05) as server:
        parts = server.client.stream(PATH, LONG)
        seen = [next(parts)]
        server.server.should_exit = True
        seen += parts
        assert seen[-1]["choices"][0]["finish_reason"] == "abort"
        assert 0 < len(seen) < 480
