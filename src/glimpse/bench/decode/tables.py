"""The tables made of measured cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from glimpse.bench.results import Table

_STEPS = ("cell", "plain, ms", "/ floor", "draft, ms", "/ floor", "verify, ms", "/ floor", "verify of 8, ms", "/ floor",
          "with importance, ms", "selection, ms", "/ floor")  # fmt: skip
_RUNS = ("cell", "law", "plain, tokens/s", "best draft", "accepted", "tokens/s", "speedup", "over plain at 1.1 floor",
         "/ ceiling", "host not hidden", "rows parted", "ties", "distinct 4-grams")  # fmt: skip
_DEPTHS = ("cell", "law", "draft", "", "by depth")
_NONE = "-"


def tables(cells: Sequence[dict[str, Any]]) -> list[Table]:
    """Steps; tokens per second where texts were written; acceptance by depth."""
    models = sorted({f"{cell['name'].split()[0]}: {cell['model']}" for cell in cells})
    title = f"Steps and their floors ({'; '.join(models)})"
    found = [Table(title, list(_STEPS), [_steps(cell) for cell in cells])]
    laws = [(cell, law) for cell in cells for law in cell["laws"].values()]
    if laws:
        found.append(Table("Decoding, plain and drafted in turn", list(_RUNS), [_run(*pair) for pair in laws]))
        depths = [row for pair in laws for row in _depths(*pair)]
        found.append(Table("P(accepted, given all before)", list(_DEPTHS), depths))
    return found


def _steps(cell: dict[str, Any]) -> list[str]:
    steps = cell["steps"]
    verify, eight = steps.get("verify", {}), steps.get("verify_8", {})
    longest = max(verify, key=int, default="")
    return [
        cell["name"], *_timed(steps["plain"]), *_timed(steps.get("draft")), *_timed(verify.get(longest)),
        *_timed(eight.get("without")), _timed(eight.get("with importance"))[0], *_timed(steps.get("select")),
    ]  # fmt: skip


def _timed(timing: dict[str, Any] | None) -> tuple[str, str]:
    if timing is None:
        return _NONE, _NONE
    return f"{timing['median'] * 1e3:.3g}" if timing["median"] < 1e-2 else f"{timing['median'] * 1e3:.1f}", (
        f"{timing['ratio']:.2f}"
    )


def _run(cell: dict[str, Any], law: dict[str, Any]) -> list[str]:
    best = next(arm for arm in law["drafted"] if arm["drafts"] == law["best"])
    ties = law["ties"]
    return [
        cell["name"], law["law"], f"{law['plain']['tokens_per_s']:,.1f}", str(law["best"]),
        f"{best['acceptance']['accepted']:.2f}", f"{law['tokens_per_s']:,.1f}", f"{law['speedup']:.2f}",
        f"{law['speedup_over_good_plain']:.2f}", _share(law["share"]), _share(best["host_share"]),
        f"{sum(best['parted'])} of {cell['rows'] * law['pairs']}",
        f"{ties['differ']} of {ties['positions']:,}, {ties['within']} near" if ties else _NONE,
        f"{law['distinct_4grams']:.2f}",
    ]  # fmt: skip


def _depths(cell: dict[str, Any], law: dict[str, Any]) -> Iterator[list[str]]:
    longest = max(law["drafted"], key=lambda arm: int(arm["drafts"]))
    for what in ("measured", "predicted"):
        shares = " ".join(_share(share) for share in longest["acceptance"][what])
        yield [cell["name"], law["law"], str(longest["drafts"]), what, shares]


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"
