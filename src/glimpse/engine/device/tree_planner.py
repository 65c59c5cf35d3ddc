"""Drafts of all rows at once, as arrays: what `PhasePlanner` does row by row, where rows decode and nothing else.

A batch of trees is thousands of nodes a step, and the device waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Draft
from glimpse.engine.device.tree_shapes import copy_out, put_drafts
from glimpse.engine.draft_check import Asked, check_planned
from glimpse.engine.parts import Parts
from glimpse.engine.phases import take_places
from glimpse.engine.request import Request
from glimpse.errors import GlimpseError
from glimpse.pacing.pacer import Action


class TreePlanner:
    """Asks pacer and drafter, and puts what they say into the host's rows."""

    def __init__(self, parts: Parts, most: int) -> None:
        """`most`: nodes that a tree is cut to: its first ones, which are its likeliest."""
        self._parts, self._most, self._rows = parts, most, parts.rows
        self._arrays = parts.rows.arrays
        self._chain = np.arange(-1, parts.rows.max_draft - 1)
        self._rehearse()

    def plan(self, running: Mapping[int, Request], *, plain: bool) -> list[int]:
        """The nodes of the draft of each row that runs (by slot), which then stands in the rows.

        `plain`: of no draft.
        """
        slots = list(running)
        self.drop(slots)
        if not plain:
            self._draft(RowView(self._rows, tuple(slots)), running)
        return [self._arrays.counts.item(slot) for slot in slots]

    def drop(self, slots: list[int]) -> None:
        """Takes the rows' drafts away."""
        for slot in slots:
            self._arrays.counts[slot] = 0
        trees = [slot for slot in slots if slot in self._rows.branching]
        if trees:
            self._arrays.parents[trees] = self._chain
            self._rows.branching.difference_update(trees)

    def _draft(self, view: RowView, running: Mapping[int, Request]) -> None:
        parts, own, most = self._parts, self._arrays, self._rows.max_draft
        index = view.index
        room = np.minimum(own.limit[index] - own.committed[index] - 1, most).tolist()
        decisions = parts.pacer.decide(view, room)
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
            check_planned(parts.drafter, draft, Asked(asked, most, parts.sampler.vocab_size))
            raise GlimpseError(f"drafter {parts.drafter.name!r} gave rows; it says that it needs no forward")
        self._put(drafting, draft, asked)
        for slot, keep in zip(drafting.slots, parts.pacer.trim(drafting), strict=True):
            self._place(slot, min(keep, self._most))

    def _put(self, view: RowView, draft: Draft, room: list[int]) -> None:
        """Raises as `check_planned` where the draft would break a row."""
        parts, own, slots = self._parts, self._arrays, view.index
        branches = np.empty(len(room), np.bool_)
        sound = put_drafts(
            slots, draft.tokens.numpy(), draft.parents.numpy(), np.array(draft.offsets, np.int64),
            draft.confidence.numpy(), draft.source.numpy(), np.array(room), parts.sampler.vocab_size, own.tokens,
            own.committed, own.counts, own.parents, own.confidence, own.entropy, own.source, branches,
        )  # fmt: skip
        if not sound:
            most = self._rows.max_draft
            check_planned(parts.drafter, draft, Asked(room, most, parts.sampler.vocab_size))
            raise GlimpseError(f"drafter {parts.drafter.name!r} gave a draft of more than {most} nodes")
        self._rows.branching.update(slots[branches].tolist())

    def _place(self, slot: int, count: int) -> None:
        """So many nodes are left; beyond the pages that the row has they may find none."""
        own = self._arrays
        own.counts[slot] = count
        if own.committed.item(slot) + count > self._rows.sequence(slot).capacity:
            own.counts[slot] = min(count, take_places(self._rows, slot))

    def _rehearse(self) -> None:
        """Compiles the loops where they are not kept from an earlier use."""
        own = Rows(1, 2, 1).arrays
        none, one = np.zeros(0, np.int64), np.ones(1, np.int64)
        put_drafts(
            np.zeros(1, np.int64), none, none, np.zeros(2, np.int64), own.confidence[0, :0], own.source[0, :0], one, 1,
            own.tokens, own.committed, own.counts, own.parents, own.confidence, own.entropy, own.source,
            np.zeros(1, np.bool_),
        )  # fmt: skip
        copy_out(
            np.zeros(1, np.int64), own.tokens, one, own.counts, own.parents, np.zeros((1, 3), np.int32), one, one.copy()
        )  # fmt: skip
