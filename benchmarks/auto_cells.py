"""`auto` against plain decoding and against each single drafter, on the kinds of prompts that users have.

Every arm over the same pinned prompt and in turn; all write the same text, so a ratio of speeds within a round is a
ratio of times. Engines live through the whole suite, as a user's would: what they learned of step costs stays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median

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
PLAIN, AUTO = "none", "auto"
ARMS = {
    PLAIN: {"drafter": "none", "pacer": "fixed"},
    "lookup": {"drafter": "lookup", "pacer": "entropy"},
    "suffix": {"drafter": "suffix", "pacer": "marginal"},
    "racer": {"drafter": "racer", "pacer": "marginal"},
    "racer+suffix": {"drafter": "racer+suffix", "pacer": "marginal"},
    "sparse": {"drafter": "sparse", "pacer": "entropy"},
    AUTO: {"drafter": AUTO, "pacer": None},
}
"""Each drafter with the pacer that suits it."""


def engines_of(llm: LLM) -> dict[str, LLM]:
    return {name: llm.variant(**options) for name, options in ARMS.items()}


def prompts_of(llm: LLM, settings: Mapping) -> dict[str, list[int]]:
    """The everyday prompts, the document question at several lengths."""
    first, *longer = settings["documents"]
    prompts = everyday_prompts(llm.tokenizer, first)
    named = {f"document {first:,}": prompts.pop("document")} | prompts
    more = {f"document {tokens:,}": everyday_prompts(llm.tokenizer, tokens)["document"] for tokens in longer}
    return {name: ids for name, ids in (named | more).items() if name.split(" ")[0] in settings["kinds"]}


def decode(llm: LLM, ids: list[int], mode: str, tokens: int) -> dict:
    out = llm.generate([ids], SamplingParams(**MODES[mode], max_tokens=tokens))[0]
    spoken = out.speculation
    return {
        "tokens_per_s": out.timing.tokens_per_s,
        "steps": [spoken.rounds, spoken.plain_steps, spoken.draft_steps],
        "drafted": spoken.drafted,
        "accepted": spoken.accepted,
        "choices": [choice.to_json() for choice in spoken.choices],
        "token_ids": list(out.token_ids),
    }


def measure(engines: Mapping[str, LLM], kind: str, mode: str, ids: list[int], settings: Mapping) -> dict:
    """All arms on one prompt; their texts are compared and not kept."""
    arms = {name: (lambda llm=llm: decode(llm, ids, mode, settings["tokens"])) for name, llm in engines.items()}
    found = interleave(arms, settings["rounds"])
    plain = found[PLAIN][0]["token_ids"]
    same = {name: all(run["token_ids"] == plain for run in each) for name, each in found.items()}
    for run in (run for each in found.values() for run in each):
        del run["token_ids"]
    return {"kind": kind, "mode": mode, "prompt": len(ids), "digest": digest(ids), "arms": found, "identical": same,
            "distinct_4grams": distinct_share(plain)}  # fmt: skip


def over(cell: Mapping, arm: str, other: str = PLAIN) -> list[float]:
    """How much faster one arm was than another, within the rounds."""
    fast, slow = ([run["tokens_per_s"] for run in cell["arms"][name]] for name in (arm, other))
    return ratios(fast, slow)


def best_single(cell: Mapping) -> str:
    """The single drafter (or none) with the highest median over plain decoding."""
    return max((name for name in ARMS if name != AUTO), key=lambda name: median(over(cell, name)))


def row(cell: Mapping) -> list[str]:
    own = summary(over(cell, AUTO))
    best = best_single(cell)
    singles = [f"{median(over(cell, name)):.2f}" for name in ARMS if name not in (PLAIN, AUTO)]
    chosen = " ".join(dict.fromkeys(choice["drafter"] for choice in cell["arms"][AUTO][-1]["choices"]))
    return [cell["kind"], f"{cell['prompt']:,}", cell["mode"], *singles,
            f"{own.median:.2f} ({own.low:.2f} to {own.high:.2f})",
            f"{median(over(cell, AUTO, best)):.2f} ({best})", chosen,
            "yes" if all(cell["identical"].values()) else "no", f"{cell['distinct_4grams']:.0%}"]  # fmt: skip


def targets(cells: Sequence[Mapping]) -> list[Target]:
    plain = [median(over(cell, AUTO)) for cell in cells]
    best = [median(over(cell, AUTO, best_single(cell))) for cell in cells]
    differing = sum(not all(cell["identical"].values()) for cell in cells)
    return [
        Target("auto over plain decoding, the worst cell", ">= 0.98", min(plain)),
        Target("auto over the best single drafter of each cell, the worst cell", ">= 0.95", min(best)),
        Target("auto over plain decoding, mean of the cells", ">= 1.4", fmean(plain)),
        Target("cells in which an arm's token ids differ from plain decoding", "== 0", differing),
    ]


def measured(bench: Bench) -> Iterator[dict]:
    """All cells; engines are made when the first one has to run."""
    engines: dict[str, LLM] = {}
    for kind, ids in prompts_of(bench.llm, bench.settings).items():
        names = [f"{kind} {mode}" for mode in MODES]
        if not bench.known(names):
            engines.update({} if engines else engines_of(bench.llm))
            with bench.llm.pinned(ids) as pinned:
                for name, mode in zip(names, MODES, strict=True):
                    bench.cell(name, partial(measure, engines, kind, mode, pinned, bench.settings))
        yield from (bench.recorded(name) for name in names)


def body(bench: Bench) -> Findings:
    cells = list(measured(bench))
    singles = [name for name in ARMS if name not in (PLAIN, AUTO)]
    columns = ("prompt", "tokens", "sampling", *singles, "auto", "auto over the best single", "chosen", "identical",
               "distinct 4-grams")  # fmt: skip
    title = "Decode speed over plain decoding, and what `auto` chose (medians of the rounds, quartiles)"
    return Findings(targets(cells), [Table(title, columns, [row(cell) for cell in cells])])


SUITE = Suite(
    name="auto_cells",
    summary=__doc__.splitlines()[0],
    settings={
        "kinds": ["document", "chat", "code", "edit", "free"],
        "documents": [1000, 4000],
        "tokens": 128,
        "rounds": 3,
        "modes": MODES,
    },
    quick={"documents": [200], "tokens": 10, "rounds": 1, "kinds": ["edit", "free"]},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
