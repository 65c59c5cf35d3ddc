"""Which constants of the Selector suit real text: the law of fast steps against the target's, along exact texts.

The paper (arXiv 2603.12038) leaves open the power a, the prior's g, b, e, h and who is a neighbour. One constant at a
time is changed from the default, and the paper's own parts are left out one at a time; every setting goes over the same
texts, which plain decoding wrote, in fast and slow steps, at budgets so small that what is chosen matters. `none` has
no prior, suppression or exclusivity: plain top-k of the attention.

Half of the passages are for fitting: there, of each open constant the value is taken that strays least, if it beats the
default by more than a standard error of the paired difference. What all of them together are worth is then read on the
passages that were held out. b < 0 favours late positions, as though u were counted from the newest.

`--confirm` asks once more, on other passages, about what the sweep left open: no parts at all, and a prior that favours
late positions, with the paper's parts and without.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from glimpse import SamplingParams
from glimpse.bench.results import Table
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.texts import Passage
from glimpse.bench.tradeoff.emitted import kl, tv
from glimpse.bench.tradeoff.path import Laws, law_of
from glimpse.bench.tradeoff.slowfast_path import Reader, slowfast_sweep
from glimpse.cache.recall import RecallBudget
from glimpse.cache.selector import Selector

Constants = Mapping[str, float]
START: Constants = {"age": 0.0}
"""What the sweep began with, but for what `Selector` has anyway; b is -4 there by what was found."""
DEFAULT = "default"
"""The arm of these constants alone."""
WITHOUT: dict[str, Constants] = {
    "none": {"most_prior": 0.0, "suppression": 0.0, "exclusivity": 0.0},
    "no prior": {"most_prior": 0.0},
    "no suppression": {"suppression": 0.0},
    "no exclusivity": {"exclusivity": 0.0},
}
"""The paper's parts left out: told, not fitted."""
OPEN: dict[str, Constants] = {
    "a = 0.5": {"power": 0.5},
    "g = 2": {"key_norm": 2.0},
    "b = 4": {"age": 4.0},
    "b = -4": {"age": -4.0},
    "h = 2": {"end": 2.0},
    "reach 2": {"reach": 2},
    "reach 4": {"reach": 4},
}
CONFIRMED: dict[str, Constants] = {
    DEFAULT: {},
    "none": WITHOUT["none"],
    "b = -4": OPEN["b = -4"],
    "b = -4, no suppression or exclusivity": {"age": -4.0, "suppression": 0.0, "exclusivity": 0.0},
}
SAMPLED = {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 1}
FITTED = ("fitted", "fitted, no exclusivity")
LANES = 8
"""Rows that the engine holds at once."""


def sweep(bench: Bench, passage: Passage, arms: Mapping[str, Constants]) -> dict[str, Any]:
    """Mean KL and TV of the fast steps of one text, by arm and budget; slow steps are left out."""
    settings, params = bench.settings, SamplingParams(**SAMPLED, ignore_eos=True, max_tokens=bench.settings["tokens"])
    prompt, law = list(passage.ids), law_of(bench.llm, params.resolve({}))
    output = bench.llm.generate([prompt], params)[0].token_ids
    asked = [(arm, budget) for arm in arms for budget in settings["budgets"]]
    found: dict[str, dict[str, Any]] = {arm: {} for arm in arms}
    for begin in range(0, len(asked), LANES):
        group = asked[begin : begin + LANES]
        readers = [
            Reader(RecallBudget(1e-9, budget, 4, settings["recent"]), Selector(**{**START, **arms[arm]}))
            for arm, budget in group
        ]
        laws = slowfast_sweep(bench.llm, prompt, output, law, readers, shares=True)
        for (arm, budget), own in zip(group, laws, strict=True):
            found[arm][str(budget)] = _apart(own)
    return {"book": passage.book, "start": passage.start, "digest": passage.digest, "arms": found}


def _apart(laws: Laws) -> dict[str, float]:
    fast = [place for place, slow in enumerate(laws.slow) if not slow]
    pairs = [(laws.target[place], laws.draft[place]) for place in fast]
    return {"kl": mean(kl(*pair) for pair in pairs), "tv": mean(tv(*pair) for pair in pairs), "fast": len(fast)}


def gains(texts: Iterable[Mapping[str, Any]], arm: str, budget: str | None = None) -> tuple[float, float]:
    """By how much an arm strays less than the default (TV, all budgets together if None is named), and the standard
    error of that over texts."""
    found = []
    for text in texts:
        default, own = text["arms"][DEFAULT], text["arms"][arm]
        budgets = default if budget is None else [budget]
        found.append(mean(default[size]["tv"] - own[size]["tv"] for size in budgets))
    return mean(found), stdev(found) / sqrt(len(found)) if len(found) > 1 else float("inf")


def fitted(texts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The open constants that these texts ask to be other than the default."""
    best: dict[str, tuple[float, Constants]] = {}
    for arm, constants in OPEN.items():
        gain, error = gains(texts, arm)
        named = next(iter(constants))
        if gain > max(error, best.get(named, (0.0,))[0]):
            best[named] = gain, constants
    return {name: value for _, constants in best.values() for name, value in constants.items()}


def halves(texts: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Texts for fitting, and those held out: both have passages of every book, whose books come in turn."""
    fits = [place // 2 % 2 == 0 for place in range(len(texts))]
    return ([text for text, fit in zip(texts, fits, strict=True) if fit],
            [text for text, fit in zip(texts, fits, strict=True) if not fit])  # fmt: skip


def body(bench: Bench) -> Findings:
    """One cell a text, twice: the second time with what the first half of them asked for."""
    passages = bench.passages(bench.settings["context"], bench.settings["texts"])
    arms: dict[str, Constants] = {DEFAULT: {}, **WITHOUT, **OPEN}
    texts = _cells(bench, "text", passages, arms)
    constants = fitted(halves(texts)[0])
    chosen = bench.cell(
        "chosen",
        lambda: {
            "constants": constants,
            "arms": {name: asdict(Selector(**{**START, **own})) for name, own in arms.items()},
        },
    )["constants"]
    if chosen:
        more = {FITTED[0]: chosen, FITTED[1]: {**chosen, "exclusivity": 0.0}}
        again = _cells(bench, "fitted", passages, more)
        texts = [{**text, "arms": text["arms"] | own["arms"]} for text, own in zip(texts, again, strict=True)]
        arms |= more
    said = ", ".join(f"{name} {value:g}" for name, value in chosen.items()) or "the defaults"
    fit, held_out = halves(texts)
    groups = {f"{len(fit)} texts for fitting": fit, f"{len(held_out)} texts held out": held_out}
    return Findings([], tables(groups, list(arms), bench.settings["budgets"], f"; fitted: {said}"))


def confirm(bench: Bench) -> Findings:
    """One cell a text."""
    passages = bench.passages(bench.settings["context"], bench.settings["texts"])
    texts = _cells(bench, "text", passages, CONFIRMED)
    return Findings([], tables({f"{len(texts)} texts": texts}, list(CONFIRMED), bench.settings["budgets"], ""))


def _cells(bench: Bench, name: str, passages: Sequence[Passage], arms: Mapping[str, Constants]) -> list[dict[str, Any]]:
    return [
        bench.cell(f"{name} {place}", lambda passage=passage: sweep(bench, passage, arms))
        for place, passage in enumerate(passages)
    ]


def tables(groups: Mapping[str, Sequence[Any]], arms: Sequence[str], budgets: Sequence[int], said: str) -> list[Table]:
    """One a budget: TV and KL of all texts, and the gain over the default in each group."""
    texts = [text for group in groups.values() for text in group]
    columns = ("constants", "TV", "KL", *(f"less TV than the default, {name}" for name in groups))
    found = []
    for size in map(str, budgets):
        rows = []
        for arm in arms:
            own = [text["arms"][arm][size] for text in texts]
            by_group = [_signed(*gains(group, arm, size)) for group in groups.values()]
            rows.append([arm, *(f"{mean(one[name] for one in own):.4f}" for name in ("tv", "kl")), *by_group])
        found.append(Table(f"Fast steps over {size} positions against the target's law{said}", columns, rows))
    return found


def _signed(gain: float, error: float) -> str:
    return f"{gain:+.4f} +- {error:.4f}"


SUITE = Suite(
    name="selector_fit",
    summary=__doc__.splitlines()[0],
    settings={"context": 1500, "tokens": 32, "texts": 12, "budgets": [132, 388], "recent": 32},
    quick={"context": 120, "tokens": 6, "texts": 4, "budgets": [40, 60], "recent": 16},
    body=body,
)
CONFIRM = replace(SUITE, name="selector_confirm", settings={**SUITE.settings, "texts": 16}, body=confirm)
"""Passages lie at other places of the books than the 12 of the sweep."""

if __name__ == "__main__":
    chosen = CONFIRM if "--confirm" in sys.argv else SUITE
    rest = [argument for argument in sys.argv[1:] if argument != "--confirm"]
    sys.exit(main(chosen, Path(__file__).resolve().parents[1], rest))
