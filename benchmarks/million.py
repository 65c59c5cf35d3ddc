"""A million tokens with speculation: is every one of them what plain decoding would have written after the same text?

    python -m benchmarks.million --model demo --device cuda --dtype bfloat16 --ids ids.npz
    python -m benchmarks.million --device cpu --tokens 20000 --rows 8

Prompts are passages of real text; the rows of a batch are greedy and sampled in turn, the batches take turns over the
drafters. What was written is fed to the plain path one token a step (teacher forcing), and every position is judged: a
pick that differs is a tie if its margin is within the limit, which was fixed beforehand for each dtype; else it is a
bug. In the bitwise mode (`--exact bitwise`) the texts themselves must be those of plain decoding, whose requests come
in the opposite order; nothing is a tie. Batches that are done are kept, so that an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.million_judges import Text, judged, outright, plain_path
from glimpse.bench import environment
from glimpse.bench.decode.cell import law_of, params_of
from glimpse.bench.decode.prompts import Text as Source
from glimpse.bench.decode.ties import MOVES
from glimpse.bench.folder import alone_in
from glimpse.bench.journal import Journal
from glimpse.bench.report import shown
from glimpse.bench.results import Result, Table, Target, write_result
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.llm import LLM
from glimpse.sampling.resolve import resolve

ROOT = Path(__file__).resolve().parents[1]
TEMPERATURES = (0.0, 0.7, 1.0)
"""Of the rows of a batch, in turn; the sampled ones with top-k 50 and top-p 0.9."""
MOVE = {"float32": 5e-4, "bfloat16": MOVES[torch.bfloat16]}
"""By how much a logit near the top may move between a verify row and a plain one. float32: five times the most that was
seen on a CPU (1.0e-4, over the last 17 positions of texts of 500 and 4,000 tokens: `benchmarks/equality.py`)."""
TIES = {"float32": "<= 1", "bfloat16": ">= 0"}
"""Ties for each 100,000 tokens."""
JUDGED = {"tokens": "by teacher forcing", "bitwise": "against the texts of plain decoding"}


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to draft: "drafter:pacer", or "drafter:pacer:draft_tokens"."""

    drafter: str
    pacer: str
    draft_tokens: int | None

    @classmethod
    def parse(cls, text: str) -> Arm:
        """Raises ArgumentError for any other form."""
        parts = text.split(":")
        if len(parts) not in (2, 3) or (len(parts) == 3 and not parts[2].isdecimal()):
            raise ArgumentError(f"--arms: {text!r} is not DRAFTER:PACER or DRAFTER:PACER:TOKENS")
        return cls(parts[0], parts[1], int(parts[2]) if len(parts) == 3 else None)

    def of(self, llm: LLM) -> LLM:
        """The engine that drafts so."""
        return llm.variant(drafter=self.drafter, pacer=self.pacer, draft_tokens=self.draft_tokens)


def limit_of(dtype: str, temperature: float) -> float:
    """The largest margin of a tie: both tokens' logits may have moved."""
    return 2 * MOVE[dtype] / (temperature or 1.0)


def one_batch(llm: LLM, arm: Arm, prompts: Sequence[list[int]], first_seed: int, given: Any, dtype: str) -> dict:
    """Decodes one batch with speculation and judges every position of it."""
    params = [
        params_of(TEMPERATURES[row % len(TEMPERATURES)], first_seed + row, given.output) for row in range(len(prompts))
    ]
    begun = time.perf_counter()
    outputs = arm.of(llm).generate(list(prompts), params)
    decoded = time.perf_counter()
    texts = [
        Text(prompt, list(out.token_ids), resolve(own))
        for prompt, out, own in zip(prompts, outputs, params, strict=True)
    ]
    if given.exact == "bitwise":
        count, found = outright(llm, texts, params)
    else:
        with plain_path(llm, texts) as plain:
            count, found = judged(plain, texts, llm.tokenizer.vocab_size)
    margins: dict[str, list[float]] = {law_of(temperature): [] for temperature in TEMPERATURES}
    beyond = []
    for one in found:
        temperature = TEMPERATURES[one.row % len(TEMPERATURES)]
        margins[law_of(temperature)].append(min(one.margin, 1e9))
        if not one.margin <= limit_of(dtype, temperature):
            beyond.append({"row": one.row, "position": one.position, "margin": min(one.margin, 1e9)})
    speculation = [out.speculation for out in outputs]
    return {
        "dtype": dtype, "arm": f"{arm.drafter}:{arm.pacer}", "rows": len(prompts), "tokens": count,
        "differ": len(found), "beyond": beyond, "margins": {law: spread(own) for law, own in margins.items()},
        "drafted": sum(own.drafted for own in speculation), "accepted": sum(own.accepted for own in speculation),
        "graph_steps": sum(own.graph_steps for own in speculation),
        "decode_s": decoded - begun, "judge_s": time.perf_counter() - decoded,
    }  # fmt: skip


def spread(margins: list[float]) -> dict[str, float]:
    """How many, the middle one and the largest."""
    return {
        "count": len(margins), "median": median(margins) if margins else 0.0, "largest": max(margins, default=0.0),
    }  # fmt: skip


def batches(given: argparse.Namespace) -> int:
    """How many, so that there are at least as many tokens as asked for."""
    return -(-given.tokens // (given.rows * given.output))


def run(given: argparse.Namespace, source: Source, journal: Journal) -> Iterator[dict]:
    """All batches."""
    dtype = given.dtype
    count, arms = batches(given), [Arm.parse(text) for text in given.arms.split(",")]
    names = [f"batch {index}" for index in range(count)]
    if all(name in journal.cells for name in names):
        yield from (journal.cells[name] for name in names)
        return
    room = given.prompt + given.output + 1
    llm = LLM(
        given.model, drafter="none", pacer="fixed", device=given.device, dtype=dtype, max_batch_size=given.rows,
        max_context=room, exact=given.exact,
    )  # fmt: skip
    prompts = source.prompts(llm.tokenizer, given.prompt, given.rows * count)
    for index, name in enumerate(names):
        if name not in journal.cells:
            mine = prompts[index::count]
            cell = one_batch(llm, arms[index % len(arms)], mine, index * given.rows, given, dtype)
            journal.add(name, cell)
            done = f"{cell['tokens']:,} tokens, {cell['differ']} differ, {len(cell['beyond'])} beyond the limit"
            print(f"{name} of {count}: {done}", file=sys.stderr, flush=True)
        yield journal.cells[name]
    llm.close()


def targets(dtype: str, cells: list[dict]) -> list[Target]:
    """What had to be shown of one dtype."""
    tokens, differ = sum(cell["tokens"] for cell in cells), sum(cell["differ"] for cell in cells)
    beyond = sum(len(cell["beyond"]) for cell in cells)
    return [
        Target(f"{dtype}: tokens that plain decoding would not have written, ties apart", "== 0", beyond),
        Target(f"{dtype}: ties in 100,000 tokens", TIES[dtype], 1e5 * (differ - beyond) / tokens),
    ]


def row_of(arm: str, cells: list[dict]) -> list[str]:
    """One line of the table."""
    tokens, differ = sum(cell["tokens"] for cell in cells), sum(cell["differ"] for cell in cells)
    beyond = sum(len(cell["beyond"]) for cell in cells)
    largest = max(own["largest"] for cell in cells for own in cell["margins"].values())
    accepted = sum(cell["accepted"] for cell in cells) / max(1, sum(cell["drafted"] for cell in cells))
    return [arm, f"{tokens:,}", f"{accepted:.0%}", f"{differ - beyond:,}", f"{beyond:,}", f"{largest:.2g}"]


def result_of(given: argparse.Namespace, cells: list[dict]) -> Result:
    """The result file."""
    head, dirty = environment.known_commit(ROOT, given.commit)
    arms = dict.fromkeys(cell["arm"] for cell in cells)
    columns = ("drafter:pacer", "tokens", "accepted", "ties", "wrong", "largest margin")
    lines = [row_of(arm, [cell for cell in cells if cell["arm"] == arm]) for arm in arms]
    limits = {law_of(heat): limit_of(given.dtype, heat) for heat in TEMPERATURES}
    return Result(
        suite=suite_of(given),
        device=environment.device_of(torch.device(given.device)), versions=environment.versions(),
        commit=head, dirty=dirty, quick=False, settings={**settings_of(given), "limits": limits}, runs=cells,
        targets=[target.noted(None) for target in targets(given.dtype, cells)],
        tables=[Table(f"{given.dtype}: every token judged {JUDGED[given.exact]}", columns, lines)],
    )  # fmt: skip


def suite_of(given: argparse.Namespace) -> str:
    """The name of the result file: one for each dtype and mode."""
    return f"million_{given.dtype}" if given.exact == "tokens" else f"million_bitwise_{given.dtype}"


def settings_of(given: argparse.Namespace) -> dict[str, Any]:
    """What a run is told apart by."""
    names = ("model", "device", "dtype", "exact", "tokens", "rows", "prompt", "output", "arms")
    return {name: getattr(given, name) for name in names} | {"temperatures": list(TEMPERATURES)}


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="bfloat16", help=f"{' or '.join(MOVE)} (default bfloat16)")
    parser.add_argument("--exact", default="tokens", choices=("tokens", "bitwise"), help="bitwise: no tie is allowed")
    parser.add_argument("--tokens", type=int, default=1_000_000, help="at least so many")
    parser.add_argument("--rows", type=int, default=64, help="requests decoded together")
    parser.add_argument("--prompt", type=int, default=768, help="tokens of a prompt")
    parser.add_argument("--output", type=int, default=256, help="tokens written by a request")
    parser.add_argument("--arms", default="sparse:entropy,lookup:fixed:4,sparse:fixed:8", help="DRAFTER:PACER[:TOKENS]")
    parser.add_argument("--ids", type=Path, help=".npz of token ids (default: the text that Python ships)")
    parser.add_argument("--text", type=Path, help="folder of .txt files")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--commit", help="the commit of this code, where there is no git")
    given = parser.parse_args(arguments)
    if given.dtype not in MOVE:
        raise ArgumentError(f"--dtype {given.dtype!r}: limits were fixed for {', '.join(MOVE)}")
    if min(given.tokens, given.rows, given.prompt, given.output) < 1:
        raise ArgumentError("--tokens, --rows, --prompt and --output must be at least 1")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs it; 0 if all is well, 1 if a token was wrong or the ties were too many."""
    try:
        given = options(arguments)
        kind = environment.device_of(torch.device(given.device))["kind"]
        header = {"code": environment.code_digest(ROOT), "settings": settings_of(given)}
        name = f"{kind}-{suite_of(given)}"
        with alone_in(given.out, name):
            journal = Journal(given.out / f".{name}.partial.jsonl", header)
            source = Source(folder=given.text, ids=given.ids)
            result = result_of(given, list(run(given, source, journal)))
            path = write_result(result, given.out)
            journal.close()
    except GlimpseError as error:
        print(f"million: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{shown(result)}\n\n{path}")
    print(json.dumps([target.to_json() for target in result.targets]))
    return int(not all(target.ok for target in result.targets))


if __name__ == "__main__":
    sys.exit(main())
