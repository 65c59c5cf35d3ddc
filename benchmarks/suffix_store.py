"""What a store of earlier requests is worth to an agent: tokens a step with and without it.

The agent is asked again and again for the whole of one piece of code with another small change each time, as tools
that edit files are. Within one request the code of the prompt can be matched anyway; the store adds what the model made
of it before. Greedy and sampled with a seed of each request's own; the texts are the same with and without the store.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from glimpse import LLM, SamplingParams
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import bootstrap
from glimpse.bench.texts import code, digest

EDITS = (
    "rename the function scanstring to scan_text",
    "add a comment above every function",
    "rename the argument strict to exact",
    "add type hints to every function",
    "rename errmsg to describe_error",
    "remove all comments",
)
MODES = {
    "greedy": {"temperature": 0, "ignore_eos": True},
    "T=0.7": {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "ignore_eos": True},
}
ARMS = {"suffix": "marginal", "racer+suffix": "marginal", "auto": None}


def prompts_of(llm: LLM, settings: Mapping) -> list[list[int]]:
    """One request an edit: code that says what it is for, and the instruction."""
    text = code(llm.tokenizer, settings["code"])
    asks = [
        f"Here is a file:\n\n{text}\n\nGive me the whole file, but {edit}." for edit in EDITS[: settings["requests"]]
    ]
    return [llm.tokenizer.chat([{"role": "user", "content": ask}]) for ask in asks]


def decode(llm: LLM, prompts: Sequence[list[int]], mode: str, tokens: int) -> list[dict]:
    """The requests one after the other; the first one meets an empty store."""
    found = []
    for index, ids in enumerate(prompts):
        out = llm.generate([ids], SamplingParams(**MODES[mode], seed=index, max_tokens=tokens))[0]
        spoken = out.speculation
        steps = spoken.rounds + spoken.plain_steps
        found.append({"tokens_a_step": (len(out.token_ids) - 1) / steps, "drafted": spoken.drafted,
                      "accepted": spoken.accepted, "steps": steps, "digest": digest(out.token_ids)})  # fmt: skip
    return found


def measure(bench: Bench, drafter: str, mode: str) -> dict:
    """With a store and without, over the same requests."""
    prompts, tokens = prompts_of(bench.llm, bench.settings), bench.settings["tokens"]
    plain = {"drafter": drafter, "pacer": ARMS[drafter]}
    arms = {"without": bench.llm.variant(**plain), "with": bench.llm.variant(**plain, suffix_store=f"{drafter} {mode}")}
    runs = {name: decode(llm, prompts, mode, tokens) for name, llm in arms.items()}
    same = [run["digest"] for run in runs["with"]] == [run["digest"] for run in runs["without"]]
    return {"drafter": drafter, "mode": mode, "runs": runs, "identical": same}


def gains(cell: Mapping) -> list[float]:
    """Tokens a step over those without the store, of every request but the first."""
    pairs = zip(cell["runs"]["with"][1:], cell["runs"]["without"][1:], strict=True)
    return [own["tokens_a_step"] / other["tokens_a_step"] for own, other in pairs]


def mean(groups: Sequence[Sequence[float]]) -> float:
    values = [value for group in groups for value in group]
    return sum(values) / len(values)


def row(cell: Mapping) -> list[str]:
    rates = [mean([[run["tokens_a_step"] for run in cell["runs"][name][1:]]]) for name in ("without", "with")]
    low, high = bootstrap([[gain] for gain in gains(cell)], mean)
    return [cell["drafter"], cell["mode"], *(f"{rate:.2f}" for rate in rates), f"{mean([gains(cell)]):.2f}",
            f"{low:.2f} to {high:.2f}", "yes" if cell["identical"] else "no"]  # fmt: skip


def body(bench: Bench) -> Findings:
    cells = [
        bench.cell(f"{drafter} {mode}", partial(measure, bench, drafter, mode))
        for drafter in bench.settings["drafters"]
        for mode in MODES
    ]
    targets = [
        Target(f"{cell['drafter']}, {cell['mode']}: tokens a step with the store over without", ">= 1.0",
               mean([gains(cell)]))
        for cell in cells
    ]  # fmt: skip
    differing = sum(not cell["identical"] for cell in cells)
    targets.append(Target("cells whose texts differ with and without the store", "== 0", differing))
    columns = ("drafter", "sampling", "tokens a step without", "with", "gain", "95% interval", "identical")
    return Findings(
        targets, [Table("Repeated edits of one file, from the second request on", columns, list(map(row, cells)))]
    )


SUITE = Suite(
    name="suffix_store",
    summary=__doc__.splitlines()[0],
    settings={"drafters": list(ARMS), "code": 300, "tokens": 96, "requests": len(EDITS), "modes": MODES},
    quick={"drafters": ["suffix"], "code": 40, "tokens": 8, "requests": 3},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
