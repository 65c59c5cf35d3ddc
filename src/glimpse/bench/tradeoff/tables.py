"""Tables of modes, and which of them are worth their price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glimpse.bench.results import Table, Target
from glimpse.bench.tradeoff.modes import PLAIN

COLUMNS = (
    "mode", "speed / plain", "drafted, accepted", "relaxed or trusted", "agreement", "KL", "TV", "perplexity",
    "answer tokens", "scores",
)  # fmt: skip


LEAST_GAIN = 1.05
"""A lossy mode that is no more than 5% faster than a lossless one is not worth what it changes."""


def tables(cells: Sequence[dict[str, Any]]) -> list[Table]:
    """All modes in the order in which they were measured, and the study's proxy of their speeds."""
    shown = [cell for cell in cells if "speedup" in cell]
    rows = [_row(cell) for cell in shown]
    costs = [name for cell in shown for name in cell["reckoned"]]
    proxy = [
        [cell["name"], *(f"{value:.2f}" for value in cell["reckoned"].values())] for cell in shown if cell["reckoned"]
    ]
    found = [Table("Speed against straying", COLUMNS, rows)]
    if proxy:
        columns = ["mode", *(f"draft step {cost}" for cost in dict.fromkeys(costs))]
        found.append(Table("Speed over plain reckoned at other draft costs (plain steps a draft step)", columns, proxy))
    return found


def targets(cells: Sequence[dict[str, Any]]) -> list[Target]:
    """What must hold whatever the device: exact modes do not stray."""
    exact = [cell for cell in cells if "speedup" in cell and cell["lossy"] is None]
    return [
        Target(f"{cell['name']}: agreement with plain decoding", ">= 1.0", cell["agreement"]).noted(None)
        for cell in exact
    ]


def frontier(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The modes that no other beats in both speed and TV, the least straying first."""
    best, found = -1.0, []
    for cell in sorted(cells, key=lambda cell: (cell["tv"], -cell["speedup"])):
        if cell["speedup"] > best:
            best = cell["speedup"]
            found.append(cell)
    return found


def worth(cells: Sequence[dict[str, Any]]) -> str:
    """One sentence: whether a lossy mode buys anything here over the best lossless one."""
    exact = [cell for cell in cells if "speedup" in cell and cell["lossy"] is None]
    lossy = [cell for cell in cells if "speedup" in cell and cell["lossy"] is not None]
    if not exact or not lossy:
        return "nothing to compare: a lossless and a lossy mode are needed"
    base, top = (max(group, key=lambda cell: cell["speedup"]) for group in (exact, lossy))
    gain = top["speedup"] / base["speedup"]
    speed = f"decodes at {top['speedup']:.2f} times the speed of plain decoding"
    beside = f"{gain:.2f} times that of {base['name']}, the fastest mode that writes the model's own text"
    if base["name"] == PLAIN:
        beside = "than which no other mode that writes the model's own text is faster"
    if gain <= LEAST_GAIN:
        return f"no lossy mode pays here: the fastest of them ({top['name']}) {speed}, {beside}; use {base['name']}"
    off = f"for that its laws lie {top['tv']:.3f} from the model's a token (TV: 0 the same, 1 nothing in common)"
    return f"{top['name']} {speed}, {beside}; {off}"


def _row(cell: dict[str, Any]) -> list[str]:
    scores = ", ".join(f"{kind} {value:.2f}" for kind, value in cell["scores"].items())
    agreement = "own noise" if cell["agreement"] is None else f"{cell['agreement']:.2f}"
    return [
        cell["name"], f"{cell['speedup']:.2f}", f"{cell['drafted']:.1f}, {cell['accepted']:.2f}",
        f"{max(cell['relaxed'], cell['trusted']):.2f}", agreement, f"{cell['kl']:.4f}", f"{cell['tv']:.4f}",
        f"{cell['perplexity']:.2f}", f"{cell['answer_tokens']:.0f}", scores,
    ]  # fmt: skip
