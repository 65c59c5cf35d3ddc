"""What host drafters cost: reading a long prompt, and a step (committed tokens read, draft of 64 nodes), 1 and 32 rows.

    python -m benchmarks.retrieval_host [--text FOLDER]

Real text; every row reads another part of a book. The successor tables know 8 successors of every token, so that drafts
are full. Times are wall-clock medians, quartiles and 99th percentiles of one thread: a machine that does nothing else.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.texts import books
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Outcome, Successors
from glimpse.drafting.lookup import LookupDrafter
from glimpse.drafting.racer.drafter import RacerDrafter
from glimpse.drafting.suffix.drafter import SuffixDrafter

ARMS = {
    "lookup": LookupDrafter,
    "suffix": SuffixDrafter,
    "racer": RacerDrafter,
    "racer + suffix": lambda: RacerDrafter(suffix=True),
}
COMMITTED = 3
"""Tokens committed a step."""
DEPTH = 32
LIMITS = {1: 0.3, 32: 1.0}
"""Milliseconds that a step of RACER may take with so many rows (issue 5)."""
COLUMNS = ("drafter", "rows", "prompt, ms a row", "step, ms", "quartiles", "99%", "nodes a row")


def tokens_of(bench: Bench, length: int) -> np.ndarray:
    """The longest book in the model's tokens. Raises NoText where there is none."""
    text = max(books(bench.options.text).values(), key=len)
    return np.asarray(bench.llm.tokenizer.encode(text[: 6 * length])[:length])


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


def measure(name: str, text: np.ndarray, count: int, context: int, steps: int) -> dict:
    """One arm at `count` rows: milliseconds to read a prompt, and of a step (quartiles and 99th percentile)."""
    drafter = ARMS[name]()
    stride = max(1, (len(text) - context - COMMITTED * steps) // count)
    view = rows_of([text[row * stride : row * stride + context] for row in range(count)], steps)
    begin = time.perf_counter()
    drafter.admit(view)
    for slot in view.slots:
        drafter.plan(view.rows_of(slot), [DEPTH])  # a prompt is read with its first draft
    build = (time.perf_counter() - begin) / count
    if isinstance(drafter, RacerDrafter):
        fill_tables(drafter, view, int(text.max()) + 1)
    taken, nodes = [], 0
    for step in range(steps):
        at = [row * stride + context + COMMITTED * step for row in range(count)]
        outcomes = [Outcome(row, 0, 0, text[at[row] : at[row] + COMMITTED].tolist()) for row in range(count)]
        for outcome in outcomes:
            view.rows.commit(outcome.slot, outcome.tokens, int(view.rows.committed_len[outcome.slot]))
        begin = time.perf_counter()
        drafter.absorb(view, outcomes)
        draft = drafter.plan(view, [DEPTH] * count)
        taken.append(time.perf_counter() - begin)
        nodes += draft.offsets[-1]
    low, mid, high, worst = (1e3 * float(value) for value in np.percentile(taken, (25, 50, 75, 99)))
    return {"drafter": name, "rows": count, "prompt_ms": 1e3 * build, "step_ms": [low, mid, high, worst],
            "nodes_a_row": nodes / steps / count}  # fmt: skip


def row(cell: dict) -> list[str]:
    """Of the table."""
    low, mid, high, worst = cell["step_ms"]
    return [cell["drafter"], str(cell["rows"]), f"{cell['prompt_ms']:.1f}", f"{mid:.3f}", f"{low:.3f} to {high:.3f}",
            f"{worst:.3f}", f"{cell['nodes_a_row']:.0f}"]  # fmt: skip


def body(bench: Bench) -> Findings:
    settings = bench.settings
    text = tokens_of(bench, settings["context"] + settings["apart"])
    cells = []
    for name in ARMS:
        measure(name, text[:1000], 1, 100, 3)  # compiles its loops
        for count in settings["rows"]:
            asked = (name, text, count, settings["context"], settings["steps"])
            cells.append(bench.cell(f"{name} x{count}", partial(measure, *asked)))
    found = [
        Target(f"racer x{cell['rows']}: ms of a step", f"<= {LIMITS[cell['rows']]}", cell["step_ms"][1])
        for cell in cells
        if cell["drafter"] == "racer" and cell["rows"] in LIMITS
    ]
    return Findings(found, [Table("Host time of a step, ms", COLUMNS, [row(cell) for cell in cells])])


SUITE = Suite(
    name="retrieval_host",
    summary=__doc__.splitlines()[0],
    settings={"context": 32_768, "apart": 100_000, "steps": 300, "rows": [1, 32]},
    quick={"context": 300, "apart": 400, "steps": 3, "rows": [1, 2]},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
