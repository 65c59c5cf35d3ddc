"""Drafts from every position of real text, for `benchmarks.libra` to replay pacers on: nothing here is timed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.libra_traces import recorded, starts_of
from glimpse import LLM, SamplingParams
from glimpse.bench.results import Table
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.texts import Passage

SAMPLED = {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 11, "ignore_eos": True}
MODES: dict[str, dict[str, Any]] = {"T=0.7": SAMPLED, "greedy": {"temperature": 0, "ignore_eos": True}}
TOGETHER = 4
"""Passages recorded in one batch."""


def batch(llm: LLM, passages: Sequence[Passage], mode: str, settings: dict) -> dict:
    """One batch of passages in one mode."""
    params = SamplingParams(**MODES[mode], max_tokens=settings["positions"])
    texts = recorded(llm, [passage.ids for passage in passages], params, settings["most"])
    facts = [{"book": own.book, "start": own.start, "digest": own.digest} for own in passages]
    return {"mode": mode, "texts": [fact | text for fact, text in zip(facts, texts, strict=True)]}


def row(mode: str, runs: Sequence[dict]) -> list[str]:
    """How good the drafts of one mode are."""
    texts = [text for run in runs for text in run["texts"]]
    right = [start.right for text in texts for start in starts_of(text)]
    distinct = sum(text["distinct_4grams"] for text in texts) / len(texts)
    shown = f"{sum(right) / len(right):.2f}", f"{sum(count > 0 for count in right) / len(right):.3f}"
    return [mode, f"{len(right)}", *shown, f"{distinct:.0%}"]


def body(bench: Bench) -> Findings:
    settings, rows = bench.settings, []
    for mode, count in settings["modes"].items():
        runs = []
        for first in range(0, count, TOGETHER):
            name = f"{mode} {first}"
            if not bench.known([name]):
                chosen = bench.passages(settings["prompt"], settings["passages"])[first : first + TOGETHER]
                bench.cell(name, partial(batch, bench.llm, chosen, mode, settings))
            runs.append(bench.recorded(name))
        rows.append(row(mode, runs))
    columns = ("mode", "drafts", f"right of {settings['most']}", "first token right", "distinct 4-grams")
    return Findings([], [Table("Sparse drafts begun at every position of book text", columns, rows)])


SUITE = Suite(
    name="libra_record",
    summary=__doc__.splitlines()[0],
    settings={
        "prompt": 4000,
        "passages": 12,
        "positions": 96,
        "most": 16,
        "modes": {"T=0.7": 8, "greedy": 8},
    },
    quick={"prompt": 200, "passages": 4, "positions": 8, "most": 4, "modes": {"T=0.7": 4, "greedy": 4}},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
