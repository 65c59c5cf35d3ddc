"""Many clients at once on a server of its own process: no error but 429, nothing left over, a clean end on SIGTERM.

    PYTHONPATH=src python -m benchmarks.serve_soak --model FOLDER --clients 200 --seconds 120

Every client asks again and again: streams and whole answers, several drafters, schemas, several texts, and now and then
it goes away in the middle. What the server holds (tasks, pages, threads, files, memory) is read off before, while
nobody asks, and after.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from glimpse.bench import environment
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.bench.serve.http import Address, request

DRAFTERS = ("none", "lookup", "racer")
WANTED = {"type": "json_schema", "json_schema": {"name": "a", "schema": {
    "type": "object", "properties": {"kind": {"enum": ["cat", "hat"]}}, "required": ["kind"],
    "additionalProperties": False}}}  # fmt: skip
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "event_loop_tasks")


def body_of(draw: random.Random) -> dict:
    """A request as it might come."""
    body = {"prompt": "the sea and the hat " * draw.randint(1, 8), "max_tokens": draw.randint(1, 40),
            "temperature": draw.choice((0, 0.9)), "seed": draw.randrange(99), "drafter": draw.choice(DRAFTERS),
            }  # fmt: skip
    if draw.random() < 0.1:
        body |= {"n": 2}
    if draw.random() < 0.1:
        body |= {"response_format": WANTED, "max_tokens": 60}
    if draw.random() < 0.1:
        body |= {"logprobs": 2, "stop": ["zz"]}
    return body


async def ask(address: Address, draw: random.Random) -> str:
    """One request; how it ended."""
    body, leaves = body_of(draw), draw.random() < 0.1
    if draw.random() < 0.7:
        async with request(address, "POST", "/v1/completions", body | {"stream": True}) as answer:
            if answer.status != 200:
                return str(answer.status)
            async for event in answer.events():
                if "error" in event:
                    return str(event["error"])
                if leaves:
                    return "left"
            return "200"
    async with request(address, "POST", "/v1/completions", body) as answer:
        if leaves:
            return "left"
        text = await answer.body()
        if answer.status == 200 and "response_format" in body:
            for choice in json.loads(text)["choices"]:
                if choice["finish_reason"] == "stop" and json.loads(choice["text"])["kind"] not in ("cat", "hat"):
                    return "no JSON of the schema"
        return str(answer.status)


async def client(address: Address, seed: int, until: float, ended: Counter) -> None:
    """Asks until the time is over; waits a little after a 429."""
    draw = random.Random(seed)
    while time.monotonic() < until:
        try:
            what = await asyncio.wait_for(ask(address, draw), 60)
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            what = repr(error)
        ended[what] += 1
        await asyncio.sleep(draw.random() * (1.0 if what == "429" else 0.2))


async def held(address: Address, process: int) -> dict[str, float]:
    """What the server holds."""
    status = Path(f"/proc/{process}/status").read_text()
    found = {
        "threads": float(re.search(r"Threads:\s+(\d+)", status)[1]),
        "memory_mib": float(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024,
        "files": float(len(os.listdir(f"/proc/{process}/fd"))),  # before there is a connection to ask for the rest
    }
    async with request(address, "GET", "/metrics") as answer:
        text = (await answer.body()).decode()
    return found | {name: float(re.search(rf"^glimpse:{name}{{.*}} (.*)$", text, re.M)[1]) for name in GAUGES}


async def soak(address: Address, process: int, clients: int, seconds: float) -> tuple[Counter, list[dict]]:
    """A quarter of the time, a look at what is held, and so on."""
    ended, looks = Counter(), []
    for quarter in range(4):
        until = time.monotonic() + seconds / 4
        await asyncio.gather(*(client(address, quarter * clients + one, until, ended) for one in range(clients)))
        await asyncio.sleep(min(2.0, seconds / 4))
        looks.append(await held(address, process))
    return ended, looks


async def finishes(address: Address, process: subprocess.Popen) -> bool:
    """Whether a stream that is under way at a SIGTERM comes to its end."""
    body = {"prompt": "the sea", "max_tokens": 200, "temperature": 0, "stream": True, "ignore_eos": True}
    async with request(address, "POST", "/v1/completions", body) as answer:
        events = answer.events()
        await anext(events)
        process.send_signal(signal.SIGTERM)
        *_, last = [event async for event in events]
        return last["choices"][0]["finish_reason"] == "length"


def targets_of(ended: Counter, looks: list[dict], drained: bool, code: int) -> list[Target]:
    """What must hold."""
    _, first, _, last = looks
    wrong = sum(count for what, count in ended.items() if what not in ("200", "429", "left"))
    left = [last["num_requests_running"], last["num_requests_waiting"], last["kv_cache_usage_perc"]]
    return [
        Target("requests that ended in an error other than 429", "== 0", wrong).noted(None),
        Target("requests answered", ">= 1", ended["200"]).noted(None),
        Target("texts and pages left over", "== 0", sum(left)).noted(None),
        Target("tasks more than at half time", "<= 0", last["event_loop_tasks"] - first["event_loop_tasks"]).noted(
            None
        ),
        Target("threads more than at half time", "<= 0", last["threads"] - first["threads"]).noted(None),
        Target("open files more than at half time", "<= 0", last["files"] - first["files"]).noted(None),
        Target("MiB more than at half time", "<= 64", last["memory_mib"] - first["memory_mib"]).noted(None),
        Target("a stream under way at SIGTERM finished", "== 1", int(drained)).noted(None),
        Target("exit code", "== 0", code).noted(None),
    ]


def main(argv: list[str] | None = None) -> int:
    """Prints what came of it; 1 if something that must hold does not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--out", type=Path, help="folder for the result file")
    parser.add_argument("--commit")
    given = parser.parse_args(argv)
    command = [sys.executable, "-m", "glimpse", "serve", "-m", given.model, "--device", "cpu", "--threads", "1",
               "--port", "0", "--max-batch-size", "16", "--max-ways", "4"]  # fmt: skip
    environ = os.environ | {"PYTHONPATH": str(environment.source_root() / "src")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ)
    try:
        address = Address.of(process.stdout.readline().rsplit(" ", 1)[1].strip())
        ended, looks = asyncio.run(soak(address, process.pid, given.clients, given.seconds))
        drained = asyncio.run(finishes(address, process))
        code = process.wait(60)
    finally:
        process.kill()
        process.wait()
    targets = targets_of(ended, looks, drained, code)
    print(json.dumps({"ended": ended, "held": looks}, indent=1))
    for target in targets:
        print("ok  " if target.ok else "FALL", target.what, target.value)
    if given.out:
        commit, dirty = environment.known_commit(environment.source_root(), given.commit)
        result = Result(
            suite="serve-soak", device=environment.device(), versions=environment.versions(), commit=commit,
            dirty=dirty, quick=False, settings={"clients": given.clients, "seconds": given.seconds},
            runs=[{"ended": dict(ended), "held": looks}], targets=targets,
            tables=[Table("How requests ended", ("how", "how many"), [[k, f"{v:,}"] for k, v in ended.items()])],
        )  # fmt: skip
        print(write_result(result, given.out))
    return 0 if all(target.ok for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
