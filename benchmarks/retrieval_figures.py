"""What `retrieval_engine` says of its cells: ratios within turns, tables, targets."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, geometric_mean, median

from glimpse.bench.results import Table, Target

GREEDY, SAMPLED = "greedy", "T=0.7"
TWIN, TWIN_LOOKUP = "transformers", "transformers lookup"
PEERS = {"document": 2.3, "chat": 1.6, "code": 1.1, "edit": 3.6, "free text": 0.85}
"""The best peer's speed over transformers' plain decoding, by kind of prompt (DESIGN section 8)."""
COUNTS = ("tokens_a_step", "nodes_a_step")
COLUMNS = ("prompts", "drafter", "times plain", "lowest, highest", "tokens a step", "nodes a step", "plain's text")
Cells = Sequence[dict]


def cells_of(cells: Cells, kind: str, mode: str) -> list[dict]:
    """The turns of one kind of prompt in one mode."""
    return [cell for cell in cells if (cell["kind"], cell["mode"]) == (kind, mode)]


def ratios(cells: Cells, first: str, second: str) -> list[float]:
    """One number a prompt: the median over its turns of the speed of one arm over that of another."""
    by_prompt: dict[str, list[float]] = {}
    for cell in cells:
        speeds = [cell["runs"][arm]["tokens_per_s"] for arm in (first, second)]
        by_prompt.setdefault(cell["prompt"], []).append(speeds[0] / speeds[1])
    return [median(each) for each in by_prompt.values()]


def same_text(cells: Cells, arm: str) -> str:
    right = sum(cell["runs"][arm]["text"] == cell["runs"]["none"]["text"] for cell in cells)
    return f"{right} of {len(cells)}"


def rows(cells: Cells, kind: str, mode: str) -> list[list[str]]:
    """One a drafter: speeds over plain decoding, the geometric mean over the kind's prompts."""
    mine = cells_of(cells, kind, mode)
    made = []
    for arm in sorted(mine[0]["runs"], key=_plain_first) if mine else ():
        speeds = ratios(mine, arm, "none")
        steps = [median(cell["runs"][arm].get(what, float("nan")) for cell in mine) for what in COUNTS]
        counts = [f"{count:.2f}" if count == count else "" for count in steps]
        low = f"{min(speeds):.2f} to {max(speeds):.2f}" if len(speeds) > 1 else ""
        made.append([f"{kind}, {mode}", arm, f"{geometric_mean(speeds):.2f}", low, *counts, same_text(mine, arm)])
    return made


def _plain_first(arm: str) -> tuple[bool, str]:
    return arm != "none", arm


def tables(cells: Cells) -> list[Table]:
    """All kinds, both modes."""
    kinds = dict.fromkeys(cell["kind"] for cell in cells)
    shown = [row for kind in kinds for mode in (GREEDY, SAMPLED) for row in rows(cells, kind, mode)]
    return [Table("Drafters through the engine, batch 1", COLUMNS, shown)]


def targets(cells: Cells) -> list[Target]:
    """What `auto` must show, where it is among the arms: on each cell, on average, and beside peers."""
    if not cells or "auto" not in cells[0]["runs"]:
        return []
    found, gains = [], []
    for kind in dict.fromkeys(cell["kind"] for cell in cells):
        for mode in (GREEDY, SAMPLED):
            mine = cells_of(cells, kind, mode)
            singles = [arm for arm in mine[0]["runs"] if arm not in (TWIN, TWIN_LOOKUP, "auto")]
            best = max(geometric_mean(ratios(mine, arm, "none")) for arm in singles)
            own = geometric_mean(ratios(mine, "auto", "none"))
            gains.append(own)
            found.append(Target(f"{kind}, {mode}: auto over plain decoding", ">= 0.98", own))
            found.append(Target(f"{kind}, {mode}: auto over the best single drafter", ">= 0.95", own / best))
        found += _beside_peers(kind, cells_of(cells, kind, GREEDY))
    return [Target("auto over plain decoding, mean of the cells", ">= 1.4", fmean(gains)), *found]


def _beside_peers(kind: str, cells: Cells) -> list[Target]:
    """`auto` beside transformers in the same run: over its prompt lookup, and over its plain decoding, as peers are."""
    found = []
    if TWIN_LOOKUP in cells[0]["runs"]:
        own = geometric_mean(ratios(cells, "auto", TWIN_LOOKUP))
        found.append(Target(f"{kind}, {GREEDY}: auto over transformers' prompt lookup", ">= 1", own))
    if TWIN in cells[0]["runs"] and kind in PEERS:
        own = geometric_mean(ratios(cells, "auto", TWIN))
        limit = f">= {PEERS[kind]:g}"
        found.append(Target(f"{kind}, {GREEDY}: auto over transformers' plain (the limit: the best peer)", limit, own))
    return found
