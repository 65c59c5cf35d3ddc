"""What a user gets: document, chat, code, edit and free-text prompts, decoded plainly and with each drafter.

The entropy pacer, greedy and sampled, every arm over the same pinned prompt and in turn. Nothing but the demo model and
what every Python ships is needed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from glimpse import LLM, SamplingParams
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import distinct_share, summary
from glimpse.bench.texts import digest, everyday_prompts
from glimpse.bench.timing import interleave, ratios

MODES = {
    "greedy": {"temperature": 0, "ignore_eos": True},
    "T=0.7": {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 3, "ignore_eos": True},
}
DRAFTERS = ("none", "sparse", "lookup")


def decode(llm: LLM, ids: list[int], mode: str, tokens: int) -> dict:
    out = llm.generate([ids], SamplingParams(**MODES[mode], max_tokens=tokens))[0]
    return {
        "tokens_per_s": out.timing.tokens_per_s,
        "mean_accepted_length": out.speculation.mean_accepted_length,
        "steps": [out.speculation.rounds, out.speculation.plain_steps, out.speculation.draft_steps],
        "token_ids": list(out.token_ids),
    }


def arms_of(llm: LLM) -> dict[str, LLM]:
    drafting = {name: llm.variant(drafter=name, pacer="entropy", draft_tokens=None) for name in DRAFTERS[1:]}
    return {"none": llm, **drafting}


def measure(bench: Bench, kind: str, mode: str, ids: list[int]) -> dict:
    """All arms on one prompt; their texts are compared and only the plain one is kept."""
    tokens, engines = bench.settings["tokens"], arms_of(bench.llm)
    arms = {name: (lambda llm=llm: decode(llm, ids, mode, tokens)) for name, llm in engines.items()}
    found = interleave(arms, bench.settings["rounds"])
    plain = found["none"][0]["token_ids"]
    same = {name: all(run["token_ids"] == plain for run in each) for name, each in found.items()}
    for run in (run for each in found.values() for run in each):
        del run["token_ids"]
    return {"kind": kind, "mode": mode, "prompt": len(ids), "digest": digest(ids), "arms": found, "identical": same,
            "distinct_4grams": distinct_share(plain)}  # fmt: skip


def speedups(cell: dict, arm: str) -> list[float]:
    """Over plain decoding, within the rounds."""
    fast, slow = ([run["tokens_per_s"] for run in cell["arms"][name]] for name in (arm, "none"))
    return ratios(fast, slow)


def row(cell: dict) -> list[str]:
    plain = summary([run["tokens_per_s"] for run in cell["arms"]["none"]])
    cells = [cell["kind"], f"{cell['prompt']:,}", cell["mode"], f"{plain.median:.1f}"]
    for arm in DRAFTERS[1:]:
        own = summary(speedups(cell, arm))
        cells.append(f"{own.median:.2f} ({own.low:.2f} to {own.high:.2f})")
    return [*cells, "yes" if all(cell["identical"].values()) else "no", f"{cell['distinct_4grams']:.0%}"]


def body(bench: Bench) -> Findings:
    cells = []
    prompts = everyday_prompts(bench.llm.tokenizer, bench.settings["document"])
    for kind in bench.settings["kinds"]:
        names = [f"{kind} {mode}" for mode in MODES]
        if not bench.known(names):
            with bench.llm.pinned(prompts[kind]) as ids:
                for name, mode in zip(names, MODES, strict=True):
                    bench.cell(name, lambda kind=kind, mode=mode, ids=ids: measure(bench, kind, mode, ids))
        cells += [bench.recorded(name) for name in names]
    differing = sum(not all(cell["identical"].values()) for cell in cells)
    columns = ("prompt", "tokens", "sampling", "plain tokens/s", "sparse, times plain", "lookup, times plain",
               "identical", "distinct 4-grams")  # fmt: skip
    title = "Decode speed with the entropy pacer over plain decoding (median of the rounds, quartiles)"
    return Findings(
        [Target("prompts and modes in which an arm's token ids differ from plain decoding", "== 0", differing)],
        [Table(title, columns, [row(cell) for cell in cells])],
    )


SUITE = Suite(
    name="end_to_end",
    summary=__doc__.splitlines()[0],
    settings={
        "kinds": ["document", "chat", "code", "edit", "free text"],
        "document": 4000,
        "tokens": 128,
        "rounds": 5,
        "modes": MODES,
    },
    quick={"document": 200, "tokens": 8, "rounds": 1, "kinds": ["document", "edit"]},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
