"""The tables made of measured batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glimpse.bench.results import Table

_ARMS = ("batch", "arm", "tokens/s", "over none", "quartiles", "drafted", "accepted", "/ ceiling", "host not hidden",
         "rows parted", "graphs captured", "distinct 4-grams")  # fmt: skip
_HALVES = ("batch", "arm", "easy: tokens/s", "drafted", "accepted", "hard: tokens/s", "drafted", "accepted")
_NONE = "-"


def tables(cells: Sequence[dict[str, Any]]) -> list[Table]:
    """Arms of every batch; of batches with unlike rows, each half besides."""
    models = sorted({f"{cell['name'].split()[0]}: {cell['model']}" for cell in cells})
    title = f"Filled batches, policies in turn, {cells[0]['law']} ({'; '.join(models)})"
    found = [Table(title, list(_ARMS), [_arm(cell, arm) for cell in cells for arm in cell["arms"]])]
    halves = [_halves(cell, arm) for cell in cells if cell["half"] for arm in cell["arms"]]
    return [*found, Table("Half of the rows easy text, half hard", list(_HALVES), halves)] if halves else found


def _arm(cell: dict[str, Any], arm: dict[str, Any]) -> list[str]:
    spread, runs = arm["spread"], len(arm["seconds"])
    ceiling = cell["plain_ceiling"] if arm["arm"] == "none" else cell["ceiling"]
    return [
        cell["name"], label(arm), f"{arm['tokens_per_s']:,.0f}", f"{arm['speedup']:.3f}",
        f"{spread['low']:.3f}-{spread['high']:.3f}", f"{arm['drafted']:.2f}", f"{arm['accepted']:.2f}",
        f"{arm['tokens_per_s'] / ceiling:.2f}",
        _NONE if arm["host_share"] is None else f"{arm['host_share']:.1%}",
        f"{sum(arm['parted'])} of {cell['rows'] * runs}", str(sum(arm["captured"])),
        f"{cell['distinct_4grams']:.2f}",
    ]  # fmt: skip


def _halves(cell: dict[str, Any], arm: dict[str, Any]) -> list[str]:
    own = [arm["halves"][kind] for kind in ("easy", "hard")]
    shown = [(f"{half['tokens_per_s']:,.0f}", f"{half['drafted']:.2f}", f"{half['accepted']:.2f}") for half in own]
    return [cell["name"], label(arm), *shown[0], *shown[1]]


def label(arm: dict[str, Any]) -> str:
    """An arm's name, with its draft length where it has one."""
    return arm["arm"] if arm["length"] is None else f"{arm['arm']} {arm['length']}"
