"""Single steps of a cell, each beside its floor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glimpse.bench.decode.cell import Cell
from glimpse.bench.floors import Floors
from glimpse.bench.stats import summary

EIGHT = 7
"""A draft of seven makes the verify step of eight tokens that the targets speak of."""


def timing(seconds: Sequence[float], floor: float) -> dict[str, Any]:
    """Median and quartiles, the floor, their ratio, and every time."""
    own = summary(seconds)
    return {"median": own.median, "low": own.low, "high": own.high, "floor": floor, "ratio": own.median / floor,
            "all": list(seconds)}  # fmt: skip


def measure_steps(cell: Cell, floors: Floors, drafts: Sequence[int], budget: int, repeats: int) -> dict[str, Any]:
    """Seconds of plain, draft and verify steps and of selecting; a first run of each, which compiles, does not count.

    `verify` has an entry for each draft length, `verify_8` one with and one without importance (the first includes the
    selection on a GPU, where it is part of the step). Drafts are real ones, and each verification follows one. Where
    drafts are looked up, their length is not ours to choose, so only the plain step is timed.
    """
    found: dict[str, Any] = {"plain": timing(_after(cell, 0, _nothing, cell.plain, 2 * repeats), floors.step(1))}
    if not cell.reads_cache:
        return found
    longest = max(drafts)
    found["verify"] = {
        str(count): timing(_after(cell, count, *_round(cell, count), repeats), floors.step(count + 1))
        for count in drafts
    }
    found["draft"] = timing(_drafting(cell, longest, repeats), floors.draft(budget))
    found["select"] = timing(_after(cell, longest, _nothing, cell.select, repeats), floors.select())
    found["verify_8"] = {
        name: timing(_after(cell, EIGHT, *_fresh_round(cell, EIGHT, learn=learn), repeats), floors.step(EIGHT + 1))
        for name, learn in (("with importance", True), ("without", False))
    }
    return found


def _after(
    cell: Cell, drafts: int, prepare: Callable[[], None], action: Callable[[], None], repeats: int
) -> list[float]:
    """Times of `action`, each after `prepare`, from the end of the prompts on."""
    cell.rewind(drafts)
    prepare()
    action()
    cell.rewind(drafts)
    return cell.clock.each(prepare, action, repeats)


def _drafting(cell: Cell, count: int, repeats: int) -> list[float]:
    """Seconds of one draft token, over drafts of `count`; the first draft after a rewinding does not count."""

    def verified() -> None:
        cell.verify(count)

    cell.rewind(count)
    cell.draft(count)
    return [seconds / count for seconds in cell.clock.each(verified, lambda: cell.draft(count), repeats)]


def _round(cell: Cell, count: int) -> tuple[Callable[[], None], Callable[[], None]]:
    return lambda: cell.draft(count), lambda: cell.verify(count)


def _fresh_round(cell: Cell, count: int, *, learn: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """The same, from the end of the prompts each time: what was not learned is missed by the next draft."""

    def prepare() -> None:
        cell.rewind(count)
        cell.draft(count)

    return prepare, lambda: cell.verify(count, learn=learn)


def _nothing() -> None:
    """Nothing has to be done before."""
