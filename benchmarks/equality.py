"""Is speculative text the plain text, token for token? And is plain greedy text that of transformers?

Real text as prompts, float32. Every drafter, pacer and draft length against plain decoding with the same seed, greedy
and sampled. All sampling modes of an arm are decoded together as one batch, but for `alone` draft lengths. Where token
ids differ, the first difference is judged by teacher forcing (`glimpse.bench.judge`) against a limit fixed beforehand.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from glimpse import LLM, GenerationOutput, SamplingParams
from glimpse.bench.judge import margin, rounding_limit
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.texts import Passage
from glimpse.bench.twin import Twin
from glimpse.outputs import first_difference

SAMPLED = {"temperature": 0.8, "seed": 7, "ignore_eos": True}
MODES = {
    "greedy": SamplingParams(temperature=0, ignore_eos=True),
    "T=0.8": SamplingParams(**SAMPLED),
    "T=0.8, top-k 50, top-p 0.9": SamplingParams(**SAMPLED, top_k=50, top_p=0.9),
    "T=0.8, penalties": SamplingParams(**SAMPLED, repetition_penalty=1.1, frequency_penalty=0.5, presence_penalty=0.5),
}


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to decode."""

    drafter: str
    pacer: str
    draft_tokens: int | None

    @property
    def name(self) -> str:
        return f"{self.drafter}/{self.pacer}/{self.draft_tokens or '-'}"

    def of(self, llm: LLM) -> LLM:
        return llm.variant(drafter=self.drafter, pacer=self.pacer, draft_tokens=self.draft_tokens)


def arms(bench: Bench) -> list[Arm]:
    """All but plain decoding itself."""
    settings = bench.settings
    grid = product(settings["drafters"], settings["pacers"], settings["draft_tokens"])
    return [Arm("none", "entropy", None), *(Arm(*choice) for choice in grid)]


def params(mode: str, tokens: int) -> SamplingParams:
    given = {name: value for name, value in MODES[mode].as_dict().items() if value is not None}
    return SamplingParams(**given | {"max_tokens": tokens})


def plain_texts(llm: LLM, ids: list[int], tokens: int) -> dict:
    """The texts that all others must equal, each decoded alone."""
    outs = {mode: llm.generate([ids], params(mode, tokens))[0] for mode in MODES}
    return {"tokens": {mode: list(out.token_ids) for mode, out in outs.items()}}


def judged(llm: LLM, ids: list[int], plain: list[int], other: list[int], mode: str, limit: float) -> dict:
    """Equal, or where not; up to where; and whether the difference is a near tie."""
    at = first_difference(plain, other)
    if at is None:
        return {"identical": True, "judged": len(plain)}
    away = float("inf")
    if at < min(len(plain), len(other)):
        away = margin(llm, ids, plain, at, other[at], params(mode, len(plain)))
    shown = away if away < float("inf") else None
    return {"identical": False, "judged": at + 1, "position": at, "margin": shown, "tie": away <= limit}


def run_arm(bench: Bench, arm: Arm, ids: list[int], plain: dict, tokens: int, limit: float) -> dict:
    """All modes of one arm against the plain texts."""
    engine = arm.of(bench.llm)
    if arm.draft_tokens in bench.settings["alone"]:
        outs = [engine.generate([ids], params(mode, tokens))[0] for mode in MODES]
    else:
        outs = engine.generate([ids] * len(MODES), [params(mode, tokens) for mode in MODES])
    return {
        "modes": {
            mode: judged(bench.llm, ids, plain["tokens"][mode], list(out.token_ids), mode, limit) | counts(out)
            for mode, out in zip(MODES, outs, strict=True)
        }
    }


def counts(out: GenerationOutput) -> dict:
    speculation = out.speculation
    return {"rounds": speculation.rounds, "drafted": speculation.drafted, "accepted": speculation.accepted}


def one_prompt(bench: Bench, passage: Passage, limit: float) -> list[dict]:
    """Every arm on one prompt, which is read once."""
    ids, length = list(passage.ids), len(passage.ids)
    tokens = bench.settings["long"] if length == bench.settings["long_at"] else bench.settings["tokens"]
    names = {f"{length} {arm.name}": arm for arm in arms(bench)}
    with nullcontext() if bench.known([f"{length} plain", *names]) else bench.llm.pinned(ids):
        fixed = {"prompt": length, "book": passage.book, "digest": passage.digest}
        plain = bench.cell(f"{length} plain", lambda: {**fixed, **plain_texts(bench.llm, ids, tokens)})
        return [
            bench.cell(name, lambda arm=arm: {"prompt": length, **run_arm(bench, arm, ids, plain, tokens, limit)})
            for name, arm in names.items()
        ]


def against_transformers(bench: Bench, prompts: list[Passage], limit: float) -> list[dict]:
    """Plain greedy text against transformers' greedy `generate`."""
    twins: list[Twin] = []  # loaded only if a cell is missing

    def compare(ids: list[int], tokens: int) -> dict:
        twins or twins.append(Twin(bench.options.model))
        theirs = twins[0].generate(ids, tokens).token_ids
        ours = list(bench.llm.generate([ids], params("greedy", tokens))[0].token_ids)
        return {"prompt": len(ids), "tokens": tokens, **judged(bench.llm, ids, ours, theirs, "greedy", limit)}

    by_length = {len(passage.ids): list(passage.ids) for passage in prompts}
    return [
        bench.cell(f"transformers {length}+{tokens}", lambda n=length, tokens=tokens: compare(by_length[n], tokens))
        for length, tokens in bench.settings["transformers"]
    ]


def body(bench: Bench) -> Findings:
    lengths = bench.settings["prompts"]
    prompts = [bench.passages(length, len(lengths))[index] for index, length in enumerate(lengths)]
    limits = [
        bench.cell(f"rounding {length}", lambda ids=passage.ids: {"limit": rounding_limit(bench.llm, ids)})["limit"]
        for length, passage in zip(lengths, prompts, strict=True)
        if length in bench.settings["rounding"]
    ]
    limit = max(limits)
    runs = [run for passage in prompts for run in one_prompt(bench, passage, limit)]
    theirs = against_transformers(bench, prompts, limit)
    verdicts = [(run["prompt"], mode, verdict) for run in runs for mode, verdict in run["modes"].items()]
    return Findings(targets(verdicts, theirs), [table(verdicts)])


def targets(verdicts: list, theirs: list[dict]) -> list[Target]:
    greedy = [verdict for _, mode, verdict in verdicts if mode == "greedy"]
    sampled = [verdict for _, mode, verdict in verdicts if mode != "greedy"]
    every = [*greedy, *sampled]
    ties = sum(verdict.get("tie", False) for verdict in every)
    tokens = sum(verdict["judged"] for verdict in every)
    return [
        Target("greedy: texts that differ from plain decoding, near ties apart", "== 0", wrong(greedy)),
        Target("coupled, T=0.8: texts that differ from plain decoding, near ties apart", "== 0", wrong(sampled)),
        Target("near ties per 100,000 tokens, float32", "<= 1", 1e5 * ties / tokens),
        Target("plain greedy: texts that differ from transformers", "== 0", wrong(theirs)),
    ]


def wrong(verdicts: list[dict]) -> int:
    return sum(not verdict["identical"] and not verdict["tie"] for verdict in verdicts)


def table(verdicts: list) -> Table:
    """How many arms gave the plain text, by prompt and mode."""
    rows = []
    for length in dict.fromkeys(length for length, _, _ in verdicts):
        cells = [f"{length:,}"]
        for mode in MODES:
            own = [verdict["identical"] for at, kind, verdict in verdicts if (at, kind) == (length, mode)]
            cells.append(f"{sum(own)} of {len(own)}")
        rows.append(cells)
    return Table("Runs whose token ids equal plain decoding", ("prompt tokens", *MODES), rows)


SUITE = Suite(
    name="equality",
    summary=__doc__.splitlines()[0],
    settings={
        "prompts": [1, 17, 500, 4000, 7900],
        "tokens": 128,
        "long_at": 500,
        "long": 256,
        "drafters": ["sparse", "lookup"],
        "pacers": ["fixed", "entropy"],
        "draft_tokens": [1, 4, 8, 16],
        "alone": [8],
        "rounding": [500, 4000],
        "transformers": [[500, 128], [4000, 128], [500, 512]],
        "modes": list(MODES),
    },
    quick={
        "prompts": [1, 40],
        "tokens": 8,
        "long_at": 0,
        "pacers": ["fixed"],
        "draft_tokens": [4, 8],
        "rounding": [40],
        "transformers": [[40, 8]],
    },
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
