"""The server's soak, tried with a few clients: it runs through, and what must hold is told apart from what does not."""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from benchmarks import serve_soak
from tests.serve.server import running

from glimpse.bench.serve.http import Address
from glimpse.llm import LLM

HELD = {"num_requests_running": 0, "num_requests_waiting": 0, "kv_cache_usage_perc": 0, "event_loop_tasks": 3,
        "threads": 9, "files": 7, "memory_mib": 600}  # fmt: skip


def test_a_few_clients(tiny_folder):
    llm = LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=4, device="cpu")
    with running(llm, max_ways=4) as server:
        work = serve_soak.soak(Address.of(server.url), os.getpid(), clients=3, seconds=0.8)
        ended, looks = asyncio.run(work)
    assert set(ended) <= {"200", "400", "429", "left"}
    assert ended["200"] > 3
    assert [look["num_requests_running"] for look in looks] == [0.0] * 4
    assert all(look["memory_mib"] > 10 and look["files"] > 2 for look in looks)


@pytest.mark.parametrize(
    ("ended", "more", "drained", "code", "falls"),
    [
        ({"200": 5, "429": 9, "left": 2}, {}, True, 0, None),
        ({"200": 5, "500": 1}, {}, True, 0, "error other than 429"),
        ({"429": 5}, {}, True, 0, "answered"),
        ({"200": 5}, {"event_loop_tasks": 4}, True, 0, "tasks"),
        ({"200": 5}, {"kv_cache_usage_perc": 0.1}, True, 0, "pages"),
        ({"200": 5}, {"memory_mib": 700}, True, 0, "MiB"),
        ({"200": 5}, {}, False, 0, "SIGTERM"),
        ({"200": 5}, {}, True, -9, "exit code"),
    ],
)
def test_what_must_hold(ended, more, drained, code, falls):
    targets = serve_soak.targets_of(Counter(ended), [HELD, HELD, HELD, HELD | more], drained, code)
    assert [target.what for target in targets if not target.ok] == [
        target.what for target in targets if falls is not None and falls in target.what
    ]
