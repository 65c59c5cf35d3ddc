"""Rows by steps as an SVG: prefill, draft, verify and plain steps coloured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from glimpse.bench.figures.svg import Svg
from glimpse.bench.timeline.lanes import IDLE, LETTERS, Lane
from glimpse.engine.watch import Did

LEGEND = {Did.PREFILL: ("violet", "prefill"), Did.DRAFT: ("blue", "draft"), Did.VERIFY: ("orange", "verify"),
          Did.PLAIN: ("green", "plain")}  # fmt: skip
_COLOUR = {LETTERS[did]: colour for did, (colour, _) in LEGEND.items()}
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 96, 24, 56
_WIDE, _TALLEST, _HIGH = 1000.0, 18.0, 560.0


def timeline(lanes: Sequence[Lane], title: str, subtitle: str) -> str:
    """The SVG of lanes that are equally long."""
    steps = max((len(lane.steps) for lane in lanes), default=1)
    wide, tall = _WIDE / steps, min(_TALLEST, _HIGH / max(1, len(lanes)))
    page = Svg(_LEFT + _WIDE + _RIGHT, _TOP + tall * len(lanes) + _BOTTOM, title)
    page.text(_LEFT, 30, title, size=16, bold=True)
    page.text(_LEFT, 50, subtitle, size=12, colour="faint")
    _legend(page)
    for place, lane in enumerate(lanes):
        _lane(page, lane, _TOP + tall * place, wide, tall)
    _axes(page, lanes, steps, wide, tall)
    return str(page)


def _lane(page: Svg, lane: Lane, top: float, wide: float, tall: float) -> None:
    inner = tall - min(2.0, 0.2 * tall)
    page.rect(_LEFT, top, wide * len(lane.steps), inner, "idle")
    at = 0
    for letter, run in groupby(lane.steps):
        count = len(list(run))
        for begin, end in _pieces(lane, at, at + count) if letter != IDLE else ():
            # Verifications in a row are told apart.
            gap = 0.12 * wide if letter == LETTERS[Did.VERIFY] else 0.0
            page.rect(_LEFT + wide * begin, top, wide * (end - begin) - gap, inner, _COLOUR[letter])
        at += count
    for start in lane.starts[1:]:
        page.line([(_LEFT + wide * start, top - 0.5), (_LEFT + wide * start, top + inner + 0.5)], "ink", 1.5)


def _pieces(lane: Lane, begin: int, end: int) -> list[tuple[int, int]]:
    """A run of equal letters: one piece; of verifications as many as there are."""
    verifies = lane.steps[begin] == LETTERS[Did.VERIFY]
    return [(at, at + 1) for at in range(begin, end)] if verifies else [(begin, end)]


def _legend(page: Svg) -> None:
    place = float(_LEFT)
    for colour, words in [*LEGEND.values(), ("idle", "no step")]:
        page.rect(place, 66, 14, 14, colour)
        page.text(place + 20, 78, words, size=12)
        place += 40 + 7 * len(words)
    page.line([(place + 2, 65), (place + 2, 81)], "ink", 1.5)
    page.text(place + 10, 78, "another request", size=12)


def _axes(page: Svg, lanes: Sequence[Lane], steps: int, wide: float, tall: float) -> None:
    bottom = _TOP + tall * len(lanes)
    for step in range(0, steps + 1, _tick(steps)):
        page.line([(_LEFT + wide * step, bottom + 1), (_LEFT + wide * step, bottom + 6)], "faint")
        page.text(_LEFT + wide * step, bottom + 20, str(step), size=12, colour="faint", anchor="middle")
    for place in range(0, len(lanes), max(1, _tick(len(lanes)))):
        middle = _TOP + tall * (place + 0.5)
        page.text(_LEFT - 8, middle + 3, str(lanes[place].slot), size=min(12, tall + 2), colour="faint", anchor="end")
    page.text(_LEFT + _WIDE / 2, bottom + 44, "step", anchor="middle")
    page.text(_LEFT - 42, (_TOP + bottom) / 2, "row", anchor="middle", turned=True)


def _tick(count: int) -> int:
    """Between numbers, so that at most about a dozen are written."""
    step = 1
    while count > 12 * step:
        step *= 5 if str(step).startswith("2") else 2
        step -= step % 10 if step > 10 else 0
    return step
