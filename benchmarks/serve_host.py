"""What a token costs the host between the engine and the wire: processor time of the server's two threads.

    python -m benchmarks.serve_host -m FOLDER_OR_GGUF [--text FOLDER]

A server of this process streams to clients of another one. Its engine computes nothing: every `step_ms` it writes the
next tokens of a book to all rows, as a GPU's reports come. The engine's processor time is of a window in which all rows
write, the event loop's of all from there to the last answer's end, as it may be behind; the time to the last answer is
the clients'. A step of 1.5 ms is the device's own for 64 rows of the demo model; at 20 ms each round is sent by itself.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.gpu_serve import THREAD, serving
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.serve.http import Address
from glimpse.bench.texts import books
from glimpse.engine.engine import Engine
from glimpse.engine.options import EngineOptions
from glimpse.engine.request import Progress
from glimpse.engine.settle import take_tokens
from glimpse.llm import LLM

PATHS = {"completions": {"prompt": [1, 2, 3]}, "chat": {"messages": [{"role": "user", "content": "Read."}]}}
LIMIT = 45.0
"""Microseconds of both threads where steps are short: a third of the median when this was measured first."""
SHORT = 1.5
"""Milliseconds of such a step."""
COLUMNS = ("what", "rows", "step, ms", "engine, us a token", "event loop, us a token", "step taken, ms",
           "tokens/s to the clients", "chunks a token")  # fmt: skip


class Reciter(Engine):
    """Writes a text to all rows, `round_tokens` of it every `step_s`, without computing anything."""

    text: Sequence[int] = ()
    step_s = 0.0
    round_tokens = 1
    rows = 0
    """The clocks are read while so many rows write."""
    loop_clock = 0
    _due = 0.0

    def begin(self) -> None:
        """Forgets what was measured."""
        self.seen: list[tuple[float, float, float, int]] = []
        """By step: seconds of the wall, of this thread, and of the event loop's; tokens so far."""
        self.tokens = 0

    def _step(self) -> list[Progress]:
        requests = list(self._running.values())
        if not requests:
            return []
        self._due = max(self._due + self.step_s, time.perf_counter())
        time.sleep(max(0.0, self._due - time.perf_counter()))
        made = []
        for slot, request in self._running.items():
            if not request.committer.token_ids:  # its prompt counts as read, or it would be looked at in each step
                self.parts.rows.verified_len[slot] = len(request.prompt)
            at = len(request.committer.token_ids) + 97 * request.arrival
            tokens = [self.text[(at + ahead) % len(self.text)] for ahead in range(self.round_tokens)]
            drafted = self.round_tokens - 1
            made.append(take_tokens(request, tokens, drafted, drafted))
        self._retire_finished()
        progress = [one.told() for one in made]
        for one in progress:
            self.tokens += len(one.commit.token_ids)
            if one.request.hear:
                one.request.hear(one)
        if len(requests) == self.rows:
            loop = time.clock_gettime(self.loop_clock)
            self.seen.append((time.perf_counter(), time.thread_time(), loop, self.tokens))
        return progress


def measure(bench: Bench, llm: LLM, path: str, step_ms: float, round_tokens: int, more: dict) -> dict:
    """One load: all clients at once, one streamed answer each."""
    settings, engine = bench.settings, llm._engine
    rows, tokens = settings["rows"], settings["tokens"]
    body = PATHS[path] | {"max_tokens": tokens, "ignore_eos": True, "stream": True, **more}
    assert isinstance(engine, Reciter)
    engine.step_s, engine.round_tokens, engine.rows = step_ms / 1e3, round_tokens, rows
    engine.begin()
    where = "/v1/chat/completions" if path == "chat" else "/v1/completions"
    with (
        serving(llm, rows) as address,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other,
    ):
        engine.loop_clock = loop_clock()
        asked = partial(read_all, address, where, json.dumps(body).encode())
        other.submit(asked, 4).result()
        engine.begin()
        chunks, seconds = other.submit(asked, rows).result()
        loop = time.clock_gettime(engine.loop_clock)
    skipped = len(engine.seen) // 8
    first, last = engine.seen[skipped], engine.seen[-1 - skipped]
    count, steps = last[3] - first[3], len(engine.seen) - 1 - 2 * skipped
    return {
        "path": path, "rows": rows, "step_ms": step_ms, "round_tokens": round_tokens,
        "engine_us": 1e6 * (last[1] - first[1]) / count,
        "loop_us": 1e6 * (loop - first[2]) / (engine.tokens - first[3]),
        "taken_ms": 1e3 * (last[0] - first[0]) / steps, "tokens_per_s": rows * tokens / seconds,
        "chunks_a_token": chunks / (rows * tokens), "more": more,
    }  # fmt: skip


def loop_clock() -> int:
    """The processor clock of the server's event loop."""
    (server,) = [thread for thread in threading.enumerate() if thread.name == THREAD]
    return time.pthread_getcpuclockid(server.ident)


def read_all(address: Address, path: str, body: bytes, count: int) -> tuple[int, float]:
    """So many clients at once: the events that they got, and the seconds from the first text to the last."""
    return asyncio.run(_read_all(address, path, body, count))


async def _read_all(address: Address, path: str, body: bytes, count: int) -> tuple[int, float]:
    moments: list[float] = []
    events = await asyncio.gather(*(_read(address, path, body, moments) for _ in range(count)))
    return sum(events), max(moments) - min(moments)


async def _read(address: Address, path: str, body: bytes, moments: list[float]) -> int:
    """The `data:` lines of one answer; counted, not parsed: the server is what is measured."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(address.head("POST", path, len(body)) + body)
    assert b" 200 " in await reader.readline()
    await reader.readuntil(b"\r\n\r\n")
    events, tail = 0, b""
    while block := await reader.read(1 << 16):
        moments.append(time.perf_counter())
        events += (tail + block).count(b"data: {") - tail.count(b"data: {")
        tail = block[-6:]
    writer.close()
    assert b"0\r\n\r\n" in tail or tail.endswith(b"\r\n\r\n"), tail
    return events


def row(cell: dict) -> list[str]:
    """Of the table."""
    burst = [f"{cell['round_tokens']} tokens a round"] if cell["round_tokens"] > 1 else []
    what = ", ".join([cell["path"], *cell["more"], *burst])
    return [what, str(cell["rows"]), f"{cell['step_ms']:g}", f"{cell['engine_us']:.1f}", f"{cell['loop_us']:.1f}",
            f"{cell['taken_ms']:.2f}", f"{cell['tokens_per_s']:,.0f}", f"{cell['chunks_a_token']:.2f}"]  # fmt: skip


def body(bench: Bench) -> Findings:
    settings = bench.settings
    llm = LLM(bench.options.model, drafter="none", pacer="fixed", dtype="float32", device="cpu",
              max_batch_size=settings["rows"], max_context=settings["tokens"] + 64)  # fmt: skip
    text = max(books(bench.options.text).values(), key=len)
    engine = Reciter(llm._engine.parts, EngineOptions("none", "fixed", prefix_reuse=False))
    engine.text = llm.tokenizer.encode(text[:200_000])
    llm._engine = engine
    cells = []
    for path, step_ms, round_tokens, more in settings["loads"]:
        name = f"{path} {step_ms:g} ms x{round_tokens} {more or ''}"
        cells.append(bench.cell(name, partial(measure, bench, llm, path, step_ms, round_tokens, more)))
    found = [
        Target(f"{cell['path']}, {cell['step_ms']:g} ms a step: us a token", f"<= {LIMIT:g}",
               cell["engine_us"] + cell["loop_us"])
        for cell in cells if cell["step_ms"] == SHORT
    ]  # fmt: skip
    return Findings(found, [Table("What a token costs the host", COLUMNS, [row(cell) for cell in cells])])


LOADS = [
    ["completions", 20.0, 1, {}],
    ["completions", SHORT, 1, {}],
    ["chat", 20.0, 1, {}],
    ["chat", 20.0, 3, {"speculation": True}],
    ["completions", 20.0, 1, {"stop": ["never said"]}],
]
SUITE = Suite(
    name="serve_host",
    summary=__doc__.splitlines()[0],
    settings={"rows": 64, "tokens": 256, "loads": LOADS},
    quick={"rows": 4, "tokens": 48, "loads": LOADS[:2]},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
