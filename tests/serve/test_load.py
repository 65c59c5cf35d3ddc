"""Many clients at once: every text is that of offline decoding, and the counters add up."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.serve.client import value
from tests.serve.server import running

import glimpse
from glimpse.sampling import SamplingParams

PATH = "/v1/completions"
WAYS = ({"drafter": "none"}, {"drafter": "racer"}, {"drafter": "sparse", "pacer": "fixed", "max_draft": 3})


def jobs():
    draw = random.Random(3)
    for number in range(40):
        yield {
            "prompt": [draw.randrange(3, 300) for _ in range(draw.choice((2, 30, 120)))],
            "max_tokens": draw.randint(1, 40),
            "temperature": draw.choice((0.0, 0.9)),
            "top_k": 50,
            "seed": number,
        }


@pytest.fixture(scope="module")
def answered(endless_llm):
    """(request, answer) of all jobs, sent at once over three drafters, and the metrics afterwards."""
    with running(endless_llm, max_ways=4) as server, ThreadPoolExecutor(20) as pool:
        asked = [body | WAYS[place % 3] for place, body in enumerate(jobs())]
        answers = list(pool.map(lambda body: server.client.post(PATH, body), asked))
        yield list(zip(asked, answers, strict=True)), server.client.get("/metrics")[1]


def test_texts_under_load_are_those_of_offline_decoding(answered, endless_llm):
    plain = endless_llm.variant(drafter="none", draft_tokens=None)
    for body, (status, answer) in answered[0]:
        assert status == 200
        options = {name: body[name] for name in ("max_tokens", "temperature", "top_k", "seed")}
        (right,) = plain.generate([body["prompt"]], SamplingParams(**options))
        assert answer["choices"][0]["text"] == right.text


def test_counters_add_up(answered):
    told, metrics = answered
    for drafter in ("none", "racer", "sparse"):
        usages = [answer["usage"] for body, (_, answer) in told if body["drafter"] == drafter]
        sums = {
            "prompt_tokens_total": sum(usage["prompt_tokens"] for usage in usages),
            "generation_tokens_total": sum(usage["completion_tokens"] for usage in usages),
            "spec_decode_num_draft_tokens_total": sum(usage["speculation"]["drafted"] for usage in usages),
            "spec_decode_num_accepted_tokens_total": sum(usage["speculation"]["accepted"] for usage in usages),
            "spec_decode_num_accepted_tokens_per_pos_total": sum(usage["speculation"]["accepted"] for usage in usages),
            "request_success_total": len(usages),
            "time_to_first_token_seconds_count": len(usages),
            "e2e_request_latency_seconds_count": len(usages),
        }
        assert {name: value(metrics, name, drafter=drafter) for name in sums} == sums
    by_depth = [
        answer["usage"]["speculation"]["accepted_by_depth"] for body, (_, answer) in told if body["drafter"] == "sparse"
    ]
    first = sum(depths[0] for depths in by_depth if depths)
    assert value(metrics, "spec_decode_num_accepted_tokens_per_pos_total", drafter="sparse", position="0") == first > 0
    assert value(metrics, "spec_decode_num_drafts_total", drafter="racer") > 0
    assert value(metrics, "spec_decode_num_drafts_total", drafter="none") == 0


def test_nothing_is_held_when_nobody_asks(answered):
    metrics = answered[1]
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "request_disconnected_total"):
        assert value(metrics, name) == 0


def test_the_dashboard_asks_for_what_is_there(answered):
    """Every metric in an expression of the Grafana file exists."""
    text = (Path(__file__).parents[2] / "docs/grafana.json").read_text()
    names = set(re.findall(r"glimpse:(\w+)", text))
    there = set(re.findall(r"^# TYPE glimpse:(\w+)", answered[1], re.M))
    assert len(names) >= 12
    assert {name.removesuffix("_bucket") for name in names} <= there


WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("fastapi", "uvicorn", "xgrammar", "prometheus_client", "starlette"):
            raise ModuleNotFoundError(name, name=name)
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in ("fastapi", "uvicorn", "xgrammar", "prometheus_client") \
    else found(name, *more)
sys.meta_path.insert(0, Hidden())
from glimpse.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("argv", "code", "named"),
    [
        (["serve"], 1, "pip install 'glimpse-llm[serve]'"),
        (["serve", "--json"], 2, "--json"),
        (["generate", "--help"], 0, ""),
        (["bench", "serve", "--rate", "0"], 2, "--rate"),
    ],
)
def test_without_the_extra_one_line_says_what_is_missing(argv, code, named):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *argv], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(Path(glimpse.__file__).parents[1]), "PATH": "/usr/bin"},
    )  # fmt: skip
    assert (done.returncode, named in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
