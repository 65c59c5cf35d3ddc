"""A million tokens with speculation: is every one of them what plain decoding would have written after the same text?

    python -m benchmarks.million --model demo --device cuda --dtype bfloat16 --ids ids.npz
    python -m benchmarks.million --device cpu --tokens 20000 --rows 8

Prompts are passages of real text; the rows of a batch are greedy and sampled in turn, the batches take turns over the
drafters. What was written is fed to the plain path one token a step (teacher forcing), and every position is judged: a
pick that differs is a tie if its margin is within the limit, which was fixed beforehand for each dtype; else it is a
bug. In the bitwise mode (`--exact bitwise`) the texts themselves must be those of plain decoding, whose requests come
in the opposite order; nothing is a tie. There the requests that draft come one after another in a random order and are
put back at random, and in every other turn of the drafters plain decoding shares the prompts that they have read.
Batches that are done are kept, so that an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.million_judges import Text, judged, outright, plain_path
from benchmarks.million_rows import disturbed, together
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
DRAFTED = 10
"""Drafted tokens for 100 written ones that each way to draft must have made: where less is drafted, less is shown."""
ARMS = "sparse:fixed:3,lookup:fixed:4,sparse:fixed:8,lookup:fixed:9"
"""Fixed lengths: at prompts this short a pacer that counts what steps cost leaves most drafts out."""
JUDGED = {"tokens": "by teacher forcing", "bitwise": "against the texts of plain decoding"}


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to draft: "drafter:pacer", or "drafter:pacer:draft_tokens"."""

    drafter: str
    pacer: str
    draft_tokens: int | None

    @property
    def name(self) -> str:
        """As it is typed."""
        length = "" if self.draft_tokens is None else f":{self.draft_tokens}"
        return f"{self.drafter}:{self.pacer}{length}"

    @classmethod
    def parse(cls, text: str) -> Arm:
        """Raises ArgumentError for any other form."""
        parts = text.split(":")
        if len(parts) not in (2, 3) or (len(parts) == 3 and not parts[2].isdecimal()):
            raise ArgumentError(f"--arms: {text!r} is not DRAFTER:PACER or DRAFTER:PACER:TOKENS")
        return cls(parts[0], parts[1], int(parts[2]) if len(parts) == 3 else None)


PLAIN = Arm("none", "fixed", None)


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines over one model, each made when it is first asked for: a GPU's captures graphs then."""

    llm: LLM
    _made: dict[tuple[Arm, bool], LLM] = field(default_factory=dict)

    def of(self, arm: Arm, *, reuse: bool) -> LLM:
        """The one that drafts so; `reuse`: prompts that others have read are shared."""
        if (arm, reuse) not in self._made:
            options = {"drafter": arm.drafter, "pacer": arm.pacer, "draft_tokens": arm.draft_tokens}
            self._made[arm, reuse] = self.llm.variant(**options, prefix_reuse=reuse)
        return self._made[arm, reuse]


def limit_of(dtype: str, temperature: float) -> float:
    """The largest margin of a tie: both tokens' logits may have moved."""
    return 2 * MOVE[dtype] / (temperature or 1.0)


def one_batch(engines: Engines, arm: Arm, prompts: Sequence[list[int]], index: int, reuse: bool, given: Any) -> dict:
    """Decodes batch `index` with speculation and judges every position of it; `reuse`: what was read is shared."""
    llm, bitwise, first_seed, shared = engines.llm, given.exact == "bitwise", index * given.rows, 0
    params = [
        params_of(TEMPERATURES[row % len(TEMPERATURES)], first_seed + row, given.output) for row in range(len(prompts))
    ]
    drafting, begun = engines.of(arm, reuse=reuse), time.perf_counter()
    written = disturbed(drafting, prompts, params, index) if bitwise else together(drafting, prompts, params)
    decoded = time.perf_counter()
    texts = [Text(prompt, out.tokens, resolve(own)) for prompt, out, own in zip(prompts, written, params, strict=True)]
    if bitwise:
        shared = sum(bool(llm._engine.parts.prefixes.find(prompt)) for prompt in prompts) if reuse else 0
        count, found = outright(engines.of(PLAIN, reuse=reuse), texts, params)
    else:
        with plain_path(llm, texts) as plain:
            count, found = judged(plain, texts, llm.tokenizer.vocab_size)
    margins: dict[str, list[float]] = {law_of(temperature): [] for temperature in TEMPERATURES}
    beyond = []
    for one in found:
        temperature = TEMPERATURES[one.row % len(TEMPERATURES)]
        margins[law_of(temperature)].append(min(one.margin, 1e9))
        if not one.margin <= limit_of(given.dtype, temperature):
            beyond.append({"row": one.row, "position": one.position, "margin": min(one.margin, 1e9)})
    speculation = [out.speculation for out in written]
    return {
        "dtype": given.dtype, "arm": arm.name, "rows": len(prompts), "tokens": count,
        "differ": len(found), "beyond": beyond, "margins": {law: spread(own) for law, own in margins.items()},
        "drafted": sum(own.drafted for own in speculation), "accepted": sum(own.accepted for own in speculation),
        "graph_steps": sum(own.graph_steps for own in speculation),
        "put_back": sum(out.put_back for out in written), "shared": shared,
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
    prompts, engines = source.prompts(llm.tokenizer, given.prompt, given.rows * count), Engines(llm)
    for index, name in enumerate(names):
        if name not in journal.cells:
            mine = prompts[index::count]
            turn, arm = divmod(index, len(arms))
            reuse = given.exact != "bitwise" or turn % 2 == 1
            cell = one_batch(engines, arms[arm], mine, index, reuse, given)
            journal.add(name, cell)
            done = f"{cell['tokens']:,} tokens, {cell['differ']} differ, {len(cell['beyond'])} beyond the limit"
            print(f"{name} of {count}: {done}", file=sys.stderr, flush=True)
        yield journal.cells[name]
    llm.close()


def drafted_share(cells: list[dict]) -> float:
    """Drafted tokens for 100 written ones."""
    return 100 * sum(cell["drafted"] for cell in cells) / sum(cell["tokens"] for cell in cells)


def by_arm(cells: list[dict]) -> dict[str, list[dict]]:
    """The batches of each way to draft."""
    return {arm: [cell for cell in cells if cell["arm"] == arm] for arm in dict.fromkeys(cell["arm"] for cell in cells)}


def targets(given: argparse.Namespace, cells: list[dict]) -> list[Target]:
    """What had to be shown of one dtype."""
    dtype, tokens, differ = given.dtype, sum(cell["tokens"] for cell in cells), sum(cell["differ"] for cell in cells)
    beyond = sum(len(cell["beyond"]) for cell in cells)
    found = [
        Target(f"{dtype}: tokens that plain decoding would not have written, ties apart", "== 0", beyond),
        Target(f"{dtype}: ties in 100,000 tokens", TIES[dtype], 1e5 * (differ - beyond) / tokens),
        Target(
            f"{dtype}: drafted for 100 tokens written, the arm that drafted least", f">= {DRAFTED}",
            min(map(drafted_share, by_arm(cells).values())),
        ),
    ]  # fmt: skip
    if given.exact == "bitwise":
        kinds = {"put_back": "requests put back", "shared": "requests of plain decoding that shared a prompt"}
        found += [Target(f"{dtype}: {said}", ">= 1", sum(cell[name] for cell in cells)) for name, said in kinds.items()]
    return found


def row_of(arm: str, cells: list[dict]) -> list[str]:
    """One line of the table."""
    tokens, differ = sum(cell["tokens"] for cell in cells), sum(cell["differ"] for cell in cells)
    beyond = sum(len(cell["beyond"]) for cell in cells)
    largest = max(own["largest"] for cell in cells for own in cell["margins"].values())
    accepted = sum(cell["accepted"] for cell in cells) / max(1, sum(cell["drafted"] for cell in cells))
    return [
        arm,
        f"{tokens:,}",
        f"{drafted_share(cells):.0f}",
        f"{accepted:.0%}",
        f"{differ - beyond:,}",
        f"{beyond:,}",
        f"{largest:.2g}",
    ]


def result_of(given: argparse.Namespace, cells: list[dict]) -> Result:
    """The result file."""
    head, dirty = environment.known_commit(ROOT, given.commit)
    columns = ("drafter:pacer", "tokens", "drafted for 100", "accepted", "ties", "wrong", "largest margin")
    lines = [row_of(arm, own) for arm, own in by_arm(cells).items()]
    limits = {law_of(heat): limit_of(given.dtype, heat) for heat in TEMPERATURES}
    return Result(
        suite=suite_of(given),
        device=environment.device_of(torch.device(given.device)), versions=environment.versions(),
        commit=head, dirty=dirty, quick=False, settings={**settings_of(given), "limits": limits}, runs=cells,
        targets=[target.noted(None) for target in targets(given, cells)],
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
    parser.add_argument("--arms", default=ARMS, help=f"DRAFTER:PACER[:TOKENS] ({ARMS})")
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
