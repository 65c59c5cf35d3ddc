"""Drafts of all rows at once, as arrays: what `PhasePlanner` does row by row, where rows decode and nothing else.

A batch of trees is thousands of nodes a step, and the device waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Draft
from glimpse.engine.device.tree_shapes import deepest, survey
from glimpse.engine.draft_check import Asked, check_planned
from glimpse.engine.parts import Parts
from glimpse.engine.phases import take_places
from glimpse.engine.request import Request
from glimpse.errors import GlimpseError
from glimpse.pacing.pacer import Action

Ints = NDArray[np.int64]


class TreePlanner:
    """Asks pacer and drafter, and puts what they say into the host's rows."""

    def __init__(self, parts: Parts, most: int) -> None:
        """`most`: nodes that a tree is cut to: its first ones, which are its likeliest."""
        rows = self._rows = parts.rows
        self._parts, self._most = parts, most
        self._tokens, self._parents = rows.tokens.numpy(), rows.draft_parents.numpy()
        self._confidence, self._entropy = rows.draft_confidence.numpy(), rows.draft_entropy.numpy()
        self._source, self._counts = rows.draft_source.numpy(), rows.draft_len.numpy()
        self._committed, self._limit = rows.committed_len.numpy(), rows.limit.numpy()
        self._chain = np.arange(-1, rows.max_draft - 1)
        self._rehearse()

    def plan(self, running: Mapping[int, Request], *, plain: bool) -> tuple[Ints, Ints]:
        """The nodes and the depth of the draft of each row that runs (by slot), which then stands in the rows.

        `plain`: of no draft.
        """
        slots = list(running)
        self.drop(slots)
        if not plain:
            self._draft(RowView(self._rows, tuple(slots)), running)
        counts, depths = self._counts[slots], np.empty(len(slots), np.int64)
        deepest(self._parents[slots], counts, depths)
        return counts, depths

    def drop(self, slots: list[int]) -> None:
        """Takes the rows' drafts away."""
        self._counts[slots] = 0
        self._parents[slots] = self._chain
        self._rows.branching.difference_update(slots)

    def _draft(self, view: RowView, running: Mapping[int, Request]) -> None:
        slots, parts = list(view.slots), self._parts
        room = np.minimum(self._rows.max_draft, self._limit[slots] - self._committed[slots] - 1)
        decisions = parts.pacer.decide(view, room.tolist())
        for slot, choice in decisions.choices.items():
            running[slot].speculation.choices.append(choice)
        wants = [action is Action.DRAFT for action in decisions.actions]
        starting = [want and can for want, can in zip(wants, parts.drafter.ready(view), strict=True)]
        drafting = view.pick(starting)
        asked = [left for left, start in zip(decisions.room, starting, strict=True) if start]
        if not len(drafting):
            return
        draft = parts.drafter.plan(drafting, asked)
        if not isinstance(draft, Draft):
            check_planned(parts.drafter, draft, Asked(asked, self._rows.max_draft, parts.sampler.vocab_size))
            raise GlimpseError(f"drafter {parts.drafter.name!r} gave rows; it says that it needs no forward")
        self._put(drafting, draft, asked)
        for slot, keep in zip(drafting.slots, parts.pacer.trim(drafting), strict=True):
            self._counts[slot] = min(keep, self._most)
            self._place(slot)

    def _put(self, view: RowView, draft: Draft, room: list[int]) -> None:
        """Raises as `check_planned` where the draft would break a row."""
        ratios, branches = self._looked_at(draft, room)
        counts, slots = np.diff(draft.offsets), np.array(view.slots)
        rows = np.repeat(slots, counts)
        nodes = np.arange(len(rows)) - np.repeat(draft.offsets[:-1], counts)
        self._tokens[rows, self._committed[rows] + nodes] = draft.tokens.numpy()
        self._parents[rows, nodes], self._confidence[rows, nodes] = draft.parents.numpy(), ratios
        self._entropy[rows, nodes], self._source[rows, nodes] = np.nan, draft.source.numpy()
        self._counts[slots] = counts
        self._rows.branching.update(slots[branches].tolist())

    def _looked_at(self, draft: Draft, room: list[int]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """What `survey` writes; where it finds a fault, `check_planned` says which."""
        parts, most = self._parts, self._rows.max_draft
        ratios, branches = np.empty(len(draft.tokens), np.float32), np.empty(len(room), np.bool_)
        sound = _bounded(draft, len(room)) and survey(
            draft.tokens.numpy(), draft.parents.numpy(), np.array(draft.offsets), draft.confidence.numpy(),
            np.array(room), most, parts.sampler.vocab_size, ratios, branches,
        )  # fmt: skip
        if not sound:
            check_planned(parts.drafter, draft, Asked(room, most, parts.sampler.vocab_size))
            raise GlimpseError(f"drafter {parts.drafter.name!r} gave a draft of more than {most} nodes")
        return ratios, branches

    def _place(self, slot: int) -> None:
        """Nodes beyond the pages that the row has may find none."""
        sequence, counts = self._rows.sequence(slot), self._counts
        if self._committed[slot] + counts[slot] > sequence.capacity:
            counts[slot] = min(counts[slot], take_places(self._rows, slot))

    def _rehearse(self) -> None:
        """Compiles the loops where they are not kept from an earlier use."""
        none, one = np.zeros(0, np.int64), np.zeros(1, np.int64)
        survey(
            none, none, np.zeros(2, np.int64), np.zeros(0, np.float32), one, 1, 1, np.zeros(0, np.float32),
            np.zeros(1, np.bool_),
        )  # fmt: skip
        deepest(np.zeros((1, 1), np.int64), one, one.copy())


def _bounded(draft: Draft, rows: int) -> bool:
    """Whether a draft's parts are as long as its bounds say, so that its nodes can be looked at."""
    bounds, lengths = draft.offsets, {len(draft.tokens), len(draft.parents), len(draft.confidence), len(draft.source)}
    ascending = all(first <= second for first, second in pairwise(bounds))
    return len(bounds) == rows + 1 and bounds[0] == 0 and ascending and lengths == {bounds[-1]}
