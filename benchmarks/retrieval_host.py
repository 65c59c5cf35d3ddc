"""What host drafters cost: reading a long prompt, and a step (committed tokens read, draft of 64 nodes), 1 and 32 rows.

    python -m benchmarks.retrieval_host [--context 32768] [--steps 300] [--text FOLDER]

Real text; every row reads another part of a book. The successor tables know 8 successors of every token, so that drafts
are full. Times are wall-clock medians, quartiles and 99th percentiles; the machine's load is printed beside them.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch

from glimpse.bench.texts import books, default_folder
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Outcome, Successors
from glimpse.drafting.lookup import LookupDrafter
from glimpse.drafting.racer.drafter import RacerDrafter
from glimpse.drafting.suffix.drafter import SuffixDrafter

ROOT = Path(__file__).resolve().parents[1]
ARMS = {
    "lookup": LookupDrafter,
    "suffix": SuffixDrafter,
    "racer": RacerDrafter,
    "racer + suffix": lambda: RacerDrafter(suffix=True),
}
COMMITTED = 3
"""Tokens committed a step."""
DEPTH = 32


def tokens_of(folder: Path, length: int) -> np.ndarray:
    """The longer book in the demo model's tokens."""
    from glimpse import LLM

    text = max(books(folder).values(), key=len)
    ids = LLM("demo", drafter="none").tokenizer.encode(text[: 6 * length])
    return np.asarray(ids[:length])


def rows_of(texts: list[np.ndarray], steps: int) -> RowView:
    width = len(texts[0]) + COMMITTED * steps + 256
    rows, pool = Rows(len(texts), width, 8), PagePool(CacheShape(1, 1, 2), 4, 16, torch.float32)
    for slot, text in enumerate(texts):
        rows.open(slot, text.tolist(), Sequence(pool), width)
    return RowView(rows, tuple(range(len(texts))))


def fill_tables(drafter: RacerDrafter, view: RowView, ids: int) -> None:
    draw = np.random.default_rng(1)
    successors = (draw.integers(0, ids, (ids, 1)) + 997 * np.arange(8)) % ids
    chances = -np.sort(-draw.dirichlet(np.ones(8), ids).astype(np.float32))
    read = Successors(*(torch.from_numpy(part) for part in (np.arange(ids), successors, chances)))
    for slot in view.slots:
        drafter.recycle(slot, read)


def shown(seconds: list[float]) -> str:
    low, mid, high, worst = (1e3 * value for value in np.percentile(seconds, (25, 50, 75, 99)))
    return f"{mid:7.3f} ms ({low:.3f} to {high:.3f}, 99%: {worst:.3f})"


def measure(name: str, text: np.ndarray, count: int, context: int, steps: int) -> str:
    """One arm at `count` rows: milliseconds to read a prompt, then of a step."""
    drafter = ARMS[name]()
    stride = max(1, (len(text) - context - COMMITTED * steps) // count)
    view = rows_of([text[row * stride : row * stride + context] for row in range(count)], steps)
    begin = time.perf_counter()
    drafter.admit(view)
    build = (time.perf_counter() - begin) / count
    if isinstance(drafter, RacerDrafter):
        fill_tables(drafter, view, int(text.max()) + 1)
    taken, nodes = [], 0
    for step in range(steps):
        at = [row * stride + context + COMMITTED * step for row in range(count)]
        outcomes = [Outcome(row, 0, 0, text[at[row] : at[row] + COMMITTED].tolist()) for row in range(count)]
        begin = time.perf_counter()
        drafter.absorb(view, outcomes)
        draft = drafter.plan(view, [DEPTH] * count)
        taken.append(time.perf_counter() - begin)
        nodes += draft.offsets[-1]
    mean = nodes / steps / count
    return f"{name:15} {count:3} rows: prompt {1e3 * build:7.1f} ms, step {shown(taken)}, {mean:.0f} nodes a row"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.retrieval_host", description=__doc__.partition("\n")[0])
    parser.add_argument("--context", type=int, default=32_768)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--text", type=Path, default=default_folder(ROOT))
    options = parser.parse_args()
    torch.set_num_threads(1)
    text = tokens_of(options.text, options.context + 100_000)
    for name in ARMS:
        begin = time.process_time()
        measure(name, text[:2000], 1, 100, 3)
        print(f"{name:15} first use: {time.process_time() - begin:.2f} s of CPU", flush=True)
    for name in ARMS:
        for count in (1, 32):
            print(
                measure(name, text, count, options.context, options.steps), f"load {os.getloadavg()[0]:.1f}", flush=True
            )


if __name__ == "__main__":
    main()
