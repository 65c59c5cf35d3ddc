"""From which batch on drafts slow decoding down, and what it costs where nothing is drafted (case A64).

The same prompt in every row, each with a seed of its own; batches of 1 to 64 rows, all arms in turn: speculation off; a
drafter that never drafts; LOOKUP that always drafts four tokens; `auto`, which draws back by itself. Processor time of
one thread, reading the last token of each prompt included, so that other work on the machine counts little; step costs
are learned from processor time too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from glimpse import LLM, SamplingParams
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.texts import everyday_prompts
from glimpse.bench.timing import interleave, ratios
from glimpse.drafting.none import NoDrafter
from glimpse.engine.engine import Engine

OFF, EMPTY, ALWAYS, AUTO = "off", "empty", "lookup 4", "auto"
BATCHES = {48: (1, 4, 8, 16, 64), 200: (1, 4, 8, 16)}
"""Rows, by the tokens of each."""
LAW = {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "ignore_eos": True}
BOUND = 0.97
"""Speed over `off` that is asked of a drafter that never drafts, in any batch."""
NEVER_BELOW = 0.98
"""The same of `auto`."""
WARM = 8
"""Tokens of each arm before anything is timed."""


class Empty(NoDrafter):
    """Drafts nothing, but is asked at every step as if it might."""

    drafts = True


def engines_of(llm: LLM, draft: int) -> dict[str, LLM]:
    """The arms."""
    always = {"drafter": "lookup", "pacer": "fixed", "draft_tokens": draft}
    empty = llm.variant(**always)
    parts = replace(empty._engine.parts, drafter=Empty())
    empty._engine = Engine(parts, empty.options)
    return {OFF: llm, EMPTY: empty, ALWAYS: llm.variant(**always), AUTO: llm.variant(drafter="auto", pacer=None)}


def prompt_of(llm: LLM, kind: str, length: int) -> list[int]:
    """A prompt made with a text of so many tokens; its first few are left out, so that it ends with the first token of
    a page: rows that share the pages before read that one.
    """
    ids = everyday_prompts(llm.tokenizer, length)[kind]
    return ids[(len(ids) - 1) % llm.loaded.pool.page_size :]


def decode(llm: LLM, ids: list[int], rows: int, tokens: int) -> dict[str, Any]:
    """One batch: processor seconds, what was drafted, and the texts."""
    params = [SamplingParams(**LAW, max_tokens=tokens, seed=row) for row in range(rows)]
    begun = time.process_time()
    with patch.object(time, "perf_counter", time.process_time):  # what others make a step wait for is not its cost
        outs = llm.generate([ids] * rows, params)
    seconds = time.process_time() - begun
    spoken = [out.speculation for out in outs]
    return {
        "seconds": seconds, "drafted": sum(one.drafted for one in spoken),
        "accepted": sum(one.accepted for one in spoken), "texts": [list(out.token_ids) for out in outs],
    }  # fmt: skip


def measure(engines: Mapping[str, LLM], kind: str, ids: list[int], rows: int, tokens: int, rounds: int) -> dict:
    """All arms with one batch; their texts are compared and not kept."""
    arms = {name: partial(decode, llm, ids, rows, tokens) for name, llm in engines.items()}
    found = interleave(arms, rounds, warm_up=0)
    right = found[OFF][0]["texts"]
    parted = {name: sum(run.pop("texts") != right for run in each) for name, each in found.items() if name != OFF}
    for run in found[OFF]:
        run.pop("texts")
    return {"kind": kind, "rows": rows, "tokens": tokens, "prompt": len(ids), "arms": found, "parted": parted}


def over(cell: Mapping[str, Any], arm: str) -> float:
    """How much faster an arm was than `off`: the median of the ratios within the rounds."""
    own, off = ([run["seconds"] for run in cell["arms"][name]] for name in (arm, OFF))
    return median(ratios(off, own))


def crossover(cells: Sequence[Mapping[str, Any]], arm: str) -> str:
    """The first batch, of those measured, in which the arm was slower than `off`."""
    slower = [cell["rows"] for cell in sorted(cells, key=lambda cell: cell["rows"]) if over(cell, arm) < 1]
    return f"{slower[0]}" if slower else f"beyond {max(cell['rows'] for cell in cells)}"


def targets(cells: Sequence[Mapping[str, Any]]) -> list[Target]:
    """What nothing drafted may cost, and that no text changes."""
    return [
        Target("a drafter that never drafts over off, the worst batch", f">= {BOUND}",
               min(over(cell, EMPTY) for cell in cells)),
        Target("auto over off, the worst batch", f">= {NEVER_BELOW}", min(over(cell, AUTO) for cell in cells)),
        Target("batches whose texts differ from those of off", "== 0",
               sum(sum(cell["parted"].values()) for cell in cells)),
    ]  # fmt: skip


def tables(cells: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Every batch; the crossover of every kind of text."""
    texts = dict[str, list[Mapping[str, Any]]]()
    for cell in cells:
        texts.setdefault(f"{cell['kind']}, {cell['tokens']} tokens a row", []).append(cell)
    columns = ("text", "tokens a row", "rows", "off, tokens/s", *(f"{arm} / off" for arm in (EMPTY, ALWAYS, AUTO)),
               "lookup accepted", "auto drafted a token")  # fmt: skip
    crossed = [(text, *(crossover(own, arm) for arm in (ALWAYS, AUTO))) for text, own in texts.items()]
    return [
        Table("Speculation off, empty, always and left to `auto`, by batch (processor time)", columns,
              [_line(cell) for cell in cells]),
        Table("First batch in which it was slower than off", ("text", ALWAYS, AUTO), crossed),
    ]  # fmt: skip


def _line(cell: Mapping[str, Any]) -> list[str]:
    always, auto, off = (cell["arms"][name][-1] for name in (ALWAYS, AUTO, OFF))
    written = cell["rows"] * cell["tokens"]
    return [
        cell["kind"], str(cell["tokens"]), str(cell["rows"]), f"{written / off['seconds']:.1f}",
        *(f"{over(cell, arm):.3f}" for arm in (EMPTY, ALWAYS, AUTO)),
        f"{always['accepted'] / max(1, always['drafted']):.0%}", f"{auto['drafted'] / written:.2f}",
    ]  # fmt: skip


def opened(bench: Bench) -> LLM:
    """With as many rows as the largest batch."""
    return LLM(
        bench.options.model, drafter="none", pacer="fixed", dtype="float32", device="cpu",
        threads=bench.options.threads, max_batch_size=max(max(rows) for _, rows in bench.settings["batches"]),
        max_context=bench.settings["context"],
    )  # fmt: skip


def measured(bench: Bench) -> Iterator[dict]:
    """All cells, small batches first; the model is opened when the first one has to run."""
    settings, engines = bench.settings, dict[str, LLM]()
    names = {f"{kind} x{rows}, {tokens} tokens": (kind, rows, tokens) for tokens, batches in settings["batches"]
             for rows in batches for kind in settings["kinds"]}  # fmt: skip
    prompts = dict[str, list[int]]()
    if not bench.known(names):
        llm = opened(bench)
        engines = engines_of(llm, settings["draft"])
        prompts = {kind: prompt_of(llm, kind, settings["prompt"]) for kind in settings["kinds"]}
        for engine in engines.values():
            # What is compiled at first use is no batch's.
            decode(engine, prompts[settings["kinds"][0]], 1, WARM)
    for name, (kind, rows, tokens) in names.items():
        if bench.known([name]):
            yield bench.recorded(name)
            continue
        with engines[OFF].pinned(prompts[kind]) as pinned:
            yield bench.cell(name, partial(measure, engines, kind, pinned, rows, tokens, settings["rounds"]))


def body(bench: Bench) -> Findings:
    """All batches."""
    cells = list(measured(bench))
    return Findings(targets(cells), tables(cells))


SUITE = Suite(
    name="crossover",
    summary=__doc__.splitlines()[0],
    settings={
        "kinds": ["edit", "free text"],
        "batches": [[tokens, list(rows)] for tokens, rows in BATCHES.items()],
        "prompt": 450,
        "context": 1024,
        "draft": 4,
        "rounds": 2,
        "law": LAW,
    },
    quick={"batches": [[8, [1, 2]]], "prompt": 60, "context": 400, "rounds": 1},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
