"""LibraSpec against every fixed length, confidence thresholds and the entropy pacer; how far each is from the oracle.

Replayed: the pacers' own code over the drafts that `benchmarks.libra_record` recorded (its result file must be there),
priced by the step-time surfaces measured on an H200 and on this project's CPU, so no clock is read. *Chains* are
drafted a token a step, as `sparse` drafts. *Blocks* are the same drafts as if they had come 16 at a time for the price
that the paper gives for DFlash, each token with the chance that its margin says: what a block drafter with such
confidences would gain. *Raw blocks* come with the probabilities of the tokens drawn instead, which say little under
`coupled`: what calibration is worth.

The first passages, which the maps of `pacing/reliability.py` were fitted to, are left out. Intervals are bootstrapped
over passages.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.libra_arms import BLOCKS, CHAINS, ENTROPY, MARGINAL, PAPER, PLAIN, Make
from benchmarks.libra_record import MODES
from benchmarks.libra_reliability import BELIEFS, by_margin, figure, judged
from benchmarks.libra_replay import Replay, Tally, oracle, sequences
from benchmarks.libra_surfaces import BLOCK, RowSurface, surfaces
from benchmarks.libra_traces import Start, starts_of
from glimpse.bench.results import Table, Target, read_result
from glimpse.bench.runner import Bench, Findings, Suite, main

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
Texts = list[list[Start]]


def texts_of(settings: Mapping[str, object], mode: str) -> Texts:
    """The recorded drafts of one mode, text by text; made up for a smoke run."""
    if settings["drafts"] is None:
        return made_up(mode)
    runs = read_result(RESULTS / str(settings["drafts"])).runs
    found = [starts_of(text) for run in runs if run["mode"] == mode for text in run["texts"]]
    return found[int(str(settings["fitted"])) :]


def made_up(mode: str) -> Texts:
    """Drafts for a smoke run."""
    draw = np.random.default_rng(len(mode))
    return [[_draft(draw) for _ in range(16)] for _ in range(4)]


def _draft(draw: np.random.Generator) -> Start:
    margins = draw.exponential(1.0, 16)
    right = int(np.argmin(np.append(draw.random(16) < margins / (margins + 0.1), False)))
    return Start(tuple(draw.random(16)), tuple(2 * draw.random(16)), tuple(margins), right)


def with_margins(texts: Texts) -> Texts:
    """Drafts whose confidence is the chance that their margin says."""
    chances = iter(by_margin(texts))
    return [[replace(start, confidence=tuple(next(chances).tolist())) for start in text] for text in texts]


def replayed(texts: Texts, surface: RowSurface, kind: str, settings: Mapping[str, int]) -> dict:
    """Drafts of one kind on one surface."""
    block = None if kind == "chains" else BLOCK * surface.full(0)
    return compared(with_margins(texts) if kind == "blocks" else texts, surface, kind, settings["requests"], block)


def compared(texts: Texts, surface: RowSurface, kind: str, count: int, block: float | None, most: int = 16) -> dict:
    """Every arm on one surface: speed over plain decoding, by text too; and the oracle's. `count` requests, drafts of
    `most` tokens."""
    requests = sequences(texts, count)
    known = [oracle(places, surface, block) for places in requests]
    arms = {}
    for name, make in (BLOCKS if block else CHAINS).items():
        arms[name] = _arm(make, requests, known, surface, block, most).as_json()
    best = fmean(rate for rate, _ in known) * surface.full(0)
    return {"surface": surface.name, "kind": kind, "plain_s": surface.full(0), "oracle": best, "arms": arms}


def _arm(make: Make, requests: list, known: list, surface: RowSurface, block: float | None, most: int) -> Tally:
    tally = Tally()
    for places, (_, best) in zip(requests, known, strict=True):
        Replay(make, surface, most, block).run(places, tally, best)
    return tally


def speed(cell: Mapping, arm: str, texts: Sequence[int] | None = None) -> float:
    """Over plain decoding."""
    own = cell["arms"][arm]
    chosen = range(len(own["texts"])) if texts is None else texts
    order = {text: place for place, text in enumerate(own["texts"])}
    tokens, seconds = (sum(own[name][order[text]] for text in chosen) for name in ("tokens", "seconds"))
    return tokens * cell["plain_s"] / seconds


def best_fixed(cell: Mapping) -> str:
    """The fixed length that does best here, which nobody knows beforehand."""
    return max((arm for arm in cell["arms"] if arm.startswith("fixed")), key=lambda arm: speed(cell, arm))


def over(cell: Mapping, arm: str, other: str) -> tuple[float, float, float]:
    """How much faster one arm is than another, with a 95% interval over texts."""
    draw, count = np.random.default_rng(1), len(cell["arms"][arm]["texts"])
    picks = [draw.integers(count, size=count).tolist() for _ in range(400)]
    ratios = [speed(cell, arm, pick) / speed(cell, other, pick) for pick in picks]
    low, high = np.quantile(ratios, [0.025, 0.975])
    return speed(cell, arm) / speed(cell, other), float(low), float(high)


def mean_over(cells: Sequence[Mapping], arm: str, other: Callable[[Mapping], str]) -> float:
    """How much faster one arm is than another, in the geometric mean of some replays."""
    return float(np.exp(fmean(np.log(speed(cell, arm) / speed(cell, other(cell))) for cell in cells)))


def table(kind: str, mode: str, cells: Sequence[Mapping]) -> Table:
    """Speed over plain decoding (tokens drafted a round, verified, distance to the oracle's length)."""
    rows = [["oracle", *(f"{cell['oracle']:.3f}" for cell in cells)]]
    for arm in cells[0]["arms"]:
        own = [cell["arms"][arm] for cell in cells]
        facts = [f"({each['drafted']:.1f}; {each['verified']:.1f}; {each['distance']:.1f})" for each in own]
        rows.append([arm, *(f"{speed(cell, arm):.3f} {fact}" for cell, fact in zip(cells, facts, strict=True))])
    title = f"{kind}, {mode}: speed over plain decoding (drafted a round; verified; off the oracle's length)"
    return Table(title, ["over plain decoding", *(cell["surface"] for cell in cells)], rows)


def against(cells: Mapping[tuple[str, str], Sequence[Mapping]]) -> Table:
    """The marginal criterion over its rivals."""
    rows = []
    for (kind, mode), own in cells.items():
        for cell in own:
            rivals = [best_fixed(cell), best_threshold(cell), ENTROPY, PAPER]
            shown = ["{:.3f} ({:.3f} to {:.3f})".format(*over(cell, MARGINAL, rival)) for rival in rivals]
            named = [f"{shown[0]} [{rivals[0]}]", f"{shown[1]} [{rivals[1]}]", *shown[2:]]
            rows.append([f"{kind}, {mode}, {cell['surface']}", *named, f"{speed(cell, MARGINAL) / cell['oracle']:.3f}"])
    columns = ("replay", "over the best fixed", "over the best threshold", "over entropy", "over the constant 2.0",
               "of the oracle")  # fmt: skip
    return Table("Marginal over its rivals (95% interval over passages)", columns, rows)


def best_threshold(cell: Mapping) -> str:
    """The limit that does best here."""
    return max((arm for arm in cell["arms"] if arm.startswith("threshold")), key=lambda arm: speed(cell, arm))


def reliability(settings: Mapping[str, object], folder: Path) -> Table:
    """What confidences are worth; draws the figure."""
    panels, rows = {}, []
    for mode in settings["modes"]:
        panels[mode] = {name: judged(texts_of(settings, mode), believe) for name, believe in BELIEFS.items()}
        for name, own in panels[mode].items():
            rows.append([f"{mode}, {name}", f"{len(own.right)}", f"{own.log_loss:.3f}", f"{own.error:.3f}"])
    figure(panels, folder / "libra-reliability.svg")
    columns = ("belief", "tokens", "log-loss", "calibration error")
    return Table("Confidences of self-drafted tokens, on passages that no map was fitted to", columns, rows)


RIVALS: Mapping[str, tuple[str, Callable[[Mapping], str]]] = {
    "the best fixed length": (">= 1", best_fixed),
    "entropy": (">= 1", lambda cell: ENTROPY),
    "plain decoding": (">= 0.98", lambda cell: PLAIN),
}
"""By what a target calls it: how often as fast the marginal criterion is to be, and the arm of a replay."""


def findings(
    cells: Mapping[tuple[str, str], Sequence[Mapping]], rivals: Iterable[str], reliable: Table, of: str = ""
) -> Findings:
    """What the replays of each (kind, mode) come to; `of` stands before kinds in titles."""
    every: dict[str, list[Mapping]] = defaultdict(list)
    for (kind, _), own in cells.items():
        every[kind] += own
    targets = [
        Target(f"{kind}: marginal over {rival}, geometric mean of the replays", RIVALS[rival][0],
               mean_over(own, MARGINAL, RIVALS[rival][1]))
        for kind, own in every.items()
        for rival in rivals
    ]  # fmt: skip
    shown = [table(f"{of}{kind}", mode, own) for (kind, mode), own in cells.items()]
    return Findings(targets, [against(cells), *shown, reliable])


def body(bench: Bench) -> Findings:
    settings, known = bench.settings, surfaces(RESULTS)
    cells: dict[tuple[str, str], list[dict]] = {}
    for kind, names in settings["surfaces"].items():
        for mode in settings["modes"]:
            texts = texts_of(settings, mode)
            cells[kind, mode] = [
                bench.cell(f"{kind} {mode} {name}", partial(replayed, texts, known[name], kind, settings))
                for name in names
            ]
    return findings(cells, RIVALS, reliability(settings, bench.options.out))


SUITE = Suite(
    name="libra",
    summary=__doc__.splitlines()[0],
    settings={
        "drafts": "cpu-libra_record.json",
        "fitted": 4,
        "modes": list(MODES),
        "surfaces": {
            "chains": ["h200 demo 8000x64", "h200 llama-3.1-8b 8000x64", "h200 1.7b 32000x16", "cpu demo 4000x1"],
            "blocks": ["h200 demo 8000x8", "h200 demo 8000x64", "h200 llama-3.1-8b 8000x16", "cpu demo 4000x1"],
            "raw blocks": ["h200 demo 8000x64", "cpu demo 4000x1"],
        },
        "requests": 3,
    },
    quick={
        "drafts": None,
        "surfaces": {"chains": ["h200 demo 8000x64"], "blocks": ["cpu demo 4000x1"]},
        "requests": 1,
    },
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, ROOT))
