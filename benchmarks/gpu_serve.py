"""Throughput and latency of the server at rising load, with the drafter off and on, on one GPU.

    PYTHONPATH=src python3 -m benchmarks.gpu_serve --model demo.gguf --ids ids.npz --out results --commit HASH

Each cell is MODEL[@SHAPE]:CONTEXTxROWS=RATE,RATE: prompts of CONTEXT real tokens, a server of ROWS rows in this process
and a load generator in another (open loop, Poisson arrivals, the same moments and prompts for every drafter). Finished
loads are kept in a journal in --out, and the same command goes on from there; no load begins after --seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from glimpse.bench import environment
from glimpse.bench.captures import captures
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import CellShape, parse_cell
from glimpse.bench.folder import script_in
from glimpse.bench.journal import Journal
from glimpse.bench.results import write_result
from glimpse.bench.serve.http import Address
from glimpse.bench.serve.suite import Plan, measure, result_of, run_of
from glimpse.bench.serve.summary import Limits
from glimpse.engine.loaded import load
from glimpse.engine.options import EngineOptions
from glimpse.llm import LLM
from glimpse.serve.running import Server
from glimpse.serve.settings import ServeSettings

CELLS = "{model}:2000x64=8,24,48;{model}@llama-3.1-8b:4000x32=1,3,6"
PROMPTS = 64
WARM = 6.0
"""Seconds of load before the first of each drafter, once what it needs is there: its prices settle."""
THREAD = "glimpse-server"
"""The name of the thread that the server's event loop has."""
LAW = {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 1}


@dataclass(frozen=True, slots=True)
class Cell:
    """A server and the rates it is loaded with."""

    shape: CellShape
    rates: tuple[float, ...]

    @classmethod
    def of(cls, text: str, model: str) -> Cell:
        """As it is typed."""
        shape, _, rates = text.partition("=")
        return cls(parse_cell(shape, model, (1,)), tuple(map(float, rates.split(","))))


@contextmanager
def serving(llm: LLM, rows: int) -> Iterator[tuple[Address, Callable[[], int]]]:
    """A server of an LLM in a thread of this process while the block runs, and what counts the graphs that its engines
    have captured: all requests wait for each."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    settings = ServeSettings(name="model", port=0, max_waiting=64 * rows, drain_seconds=5, max_body=1 << 26)
    server = Server(llm, settings)
    work = server.serve(sockets=[listener])
    thread = threading.Thread(target=lambda: asyncio.run(work), name=THREAD, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        ways = server.config.app.state.served.ways  # type: ignore[union-attr]
        counted = lambda: sum(captures(engine.llm._engine) for engine in ways.engines)  # noqa: E731
        yield Address("127.0.0.1", listener.getsockname()[1], "", False), counted
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()


def opened(cell: Cell, models: Models, tokens: int) -> LLM:
    """The cell's model with a cache for its rows; the server decodes plainly where a request does not say."""
    length = cell.shape.context + tokens
    checkpoint = models.open(cell.shape, length)
    with torch.inference_mode():
        loaded = load(checkpoint, length, cell.shape.rows)
    # Prompts overlap and repeat: reading them each time is what a server of strangers does.
    return LLM.over(loaded, EngineOptions("none", "fixed", prefix_reuse=False))


def ready(address: Address, drafters: Sequence[str]) -> None:
    """Asks once for every drafter: a server makes ready what a way of decoding needs when it is first named."""
    for drafter in drafters:
        begun = time.perf_counter()
        body = {"model": "model", "prompt": [1, 2, 3], "max_tokens": 4, "drafter": drafter}
        request = urllib.request.Request(
            f"http://{address.host}:{address.port}/v1/completions", json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=600) as answer:
            answer.read()
        print(f"{drafter}: ready in {time.perf_counter() - begun:.1f} s", file=sys.stderr, flush=True)


def loads(cell: Cell, llm: LLM, given: argparse.Namespace, journal: Journal, until: float) -> None:
    """All loads of a cell that are not in the journal yet, in a process of their own."""
    prompts = Text(ids=given.ids).prompts(llm.tokenizer, cell.shape.context, PROMPTS)
    bodies = [{"prompt": ids, "max_tokens": given.tokens, "ignore_eos": True, **LAW} for ids in prompts]
    drafters = given.drafters.split(",")
    limits = Limits(given.slo_ttft, given.slo_tpot)
    with (
        serving(llm, cell.shape.rows) as (address, captured),
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other,
    ):
        plan = Plan(address, "/v1/completions", bodies, cell.rates, drafters, given.load_seconds, limits)
        known, late = journal.cells, time.monotonic() > until
        missing = [own for own in drafters if any(_name(cell, own, rate) not in known for rate in cell.rates)]
        ready(address, [] if late else missing)
        warmed: set[str] = set()
        for rate in cell.rates:
            for drafter in drafters:
                name = _name(cell, drafter, rate)
                if name in journal.cells or time.monotonic() > until:
                    continue
                if drafter not in warmed:
                    other.submit(measure, replace(plan, seconds=WARM), cell.rates[-1], drafter).result()
                    warmed.add(drafter)
                before = captured()
                summary, found = other.submit(measure, plan, rate, drafter).result()
                facts = {"model": cell.shape.name, "captured": captured() - before}
                journal.add(name, {**facts, **run_of(rate, f"{drafter}", summary, found)})
                print(json.dumps({"load": name, **facts, **summary.to_json()}), flush=True)


def _name(cell: Cell, drafter: str, rate: float) -> str:
    return f"{cell.shape.name} {drafter} {rate:g}/s"


def main(argv: list[str] | None = None) -> None:
    """One line a load, and a result file a cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--ids", type=Path, help="an .npz file of token ids; left out: what Python's help() shows")
    parser.add_argument("--cells", default=CELLS, help="separated by ;")
    parser.add_argument("--drafters", default="none,auto")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--load-seconds", type=float, default=25)
    parser.add_argument("--slo-ttft", type=float, default=2.0)
    parser.add_argument("--slo-tpot", type=float, default=0.05)
    parser.add_argument("--seconds", type=float, default=480, help="begin no load after this")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path, required=True, help="folder for the result file and the journal")
    given = parser.parse_args(argv)
    with script_in(given.out, "gpu-serve"):
        run(given)


def run(given: argparse.Namespace) -> None:
    """The loads that the journal does not have, as far as there is time, and the result files."""
    device, until = torch.device(given.device), time.monotonic() + given.seconds
    models = Models(torch.bfloat16 if device.type == "cuda" else torch.float32, device)
    commit, dirty = environment.known_commit(environment.source_root(), given.commit)
    header = {"commit": commit, "cells": given.cells, "tokens": given.tokens, "device": given.device}
    journal = Journal(given.out / "gpu-serve.journal", header)
    cells = [Cell.of(text, given.model) for text in given.cells.format(model=given.model).split(";")]
    for cell in cells:
        if time.monotonic() < until:
            llm = opened(cell, models, given.tokens)
            print(f"{cell.shape.name}: {llm.warm_up()}", file=sys.stderr, flush=True)
            loads(cell, llm, given, journal, until)
            llm.close()
    runs: list[dict[str, Any]] = [dict(run) for run in journal.cells.values()]
    for model in {run["model"]: None for run in runs}:
        own = [run for run in runs if run["model"] == model]
        plan = Plan(
            Address("127.0.0.1", 0, "", False), "/v1/completions", [], sorted({run["rate"] for run in own}),
            given.drafters.split(","), given.load_seconds, Limits(given.slo_ttft, given.slo_tpot),
        )  # fmt: skip
        result = result_of(
            plan, own, device=environment.device_of(device), versions=environment.versions(), commit=commit,
            dirty=dirty, settings={"model": model, "tokens": given.tokens, "prompts": PROMPTS, **LAW},
        )  # fmt: skip
        suite = "serve-" + "".join(char if char.isalnum() else "-" for char in model)
        print(write_result(replace(result, suite=suite), given.out))


if __name__ == "__main__":
    main()
