"""From steps that were seen to lanes: for each row, a letter a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glimpse.engine.request import Request
from glimpse.engine.watch import Did, Moment, Seen

LETTERS = {Did.PREFILL: "p", Did.DRAFT: "d", Did.VERIFY: "v", Did.PLAIN: "1"}
IDLE = " "


@dataclass(slots=True)
class Lane:
    """One row."""

    slot: int
    steps: str = ""
    """`LETTERS`, and a space where it did nothing."""
    starts: list[int] = field(default_factory=list)
    """The steps at which another request began in it."""
    last: Request | None = None
    """Whose steps were added last."""

    def add(self, letter: str, request: Request, at: int) -> None:
        """What it did at step `at`."""
        if request is not self.last:
            self.starts.append(at)
            self.last = request
        self.steps = self.steps.ljust(at) + letter


def lanes_of(seen: Sequence[Seen], most: int | None = None) -> list[Lane]:
    """The rows that did anything, by slot; all as long, and no longer than `most`."""
    lanes: dict[int, Lane] = {}
    at = 0
    for column in _columns(_in_order(seen)):
        for _ in range(column[0].steps):
            for step in column:
                for slot, request, did in zip(step.slots, step.requests, step.did, strict=True):
                    lanes.setdefault(slot, Lane(slot)).add(LETTERS[Did(did)], request, at)
            at += 1
    end = at if most is None else min(at, most)
    for lane in lanes.values():
        lane.steps = lane.steps.ljust(end)[:end]
        lane.starts = [start for start in lane.starts if start < end]
    return [lanes[slot] for slot in sorted(lanes)]


def _in_order(seen: Sequence[Seen]) -> list[Seen]:
    """By when they began: parts of prompts are heard of before the steps that ran meanwhile."""
    if not seen:
        return []
    origin: Moment = seen[0].begin
    return sorted(seen, key=lambda step: step.begin.since(origin))


def _columns(seen: Sequence[Seen]) -> list[list[Seen]]:
    """Steps; parts of prompts that a device read one after another make one, until a row has its next part."""
    columns: list[list[Seen]] = []
    for step in seen:
        if step.end is None and columns and _only_parts(columns[-1]) and not _slots(columns[-1]) & set(step.slots):
            columns[-1].append(step)
        else:
            columns.append([step])
    return columns


def _only_parts(column: Sequence[Seen]) -> bool:
    return all(step.end is None for step in column)


def _slots(column: Sequence[Seen]) -> set[int]:
    return {slot for step in column for slot in step.slots}
