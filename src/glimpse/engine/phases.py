"""Which rows do what in the next step: prefill, draft, verify, plain."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

from torch import Tensor

from glimpse.attention.plan import RowSpec
from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Draft, Drafter, SpineDrafter, mixed_of, spines_of
from glimpse.engine.draft_check import Asked, check_planned
from glimpse.engine.request import Request
from glimpse.engine.riding import Riders
from glimpse.pacing.pacer import Action, Pacer, chain_pacer_of

CHUNK = 512
"""Most prompt tokens in one step."""


@dataclass(slots=True)
class StepPlan:
    """The rows of one step, by what becomes of their logits."""

    prefill: list[RowSpec] = field(default_factory=list)
    """Parts of prompts; the logits are wanted only for prompt logprobs and by drafters that read prompts."""
    draft: list[RowSpec] = field(default_factory=list)
    full: list[RowSpec] = field(default_factory=list)
    """Rows that commit: verified drafts, plain steps, and the last part of a prompt."""

    @property
    def specs(self) -> list[RowSpec]:
        """All rows, in the order in which they are laid into the batch."""
        return self.prefill + self.draft + self.full

    @property
    def bounds(self) -> tuple[int, int]:
        """Where the draft rows begin and end in `specs`."""
        return len(self.prefill), len(self.prefill) + len(self.draft)


class PhasePlanner:
    """Asks pacer and drafter, and turns their answers into rows of the next forward."""

    def __init__(self, rows: Rows, drafter: Drafter, pacer: Pacer, vocab: int, riders: Riders | None = None) -> None:
        """`vocab` is how many token ids the target can read."""
        self._rows, self._drafter, self._pacer = rows, drafter, pacer
        self._vocab, self._spines = vocab, spines_of(drafter)
        chains = chain_pacer_of(pacer)
        # Whole drafts are trimmed when they come.
        self._rolls_back = chains is not None and chains.rolls_back and drafter.needs_forward
        self.halted: set[int] = set()
        """Rows whose draft cannot go on (their last draft law was not finite)."""
        self._riders = riders
        self._learning: set[int] = set()
        """Slots of full rows that the drafter learns from."""

    def plan(self, running: dict[int, Request]) -> StepPlan:
        """The next step for the running requests, by slot."""
        plan, decoding, budget = StepPlan(), [], CHUNK
        self._learning = set()
        for slot, request in running.items():
            pending = int(self._rows.committed_len[slot] - self._rows.verified_len[slot])
            if pending == 1:
                decoding.append(slot)
            elif budget > 0:
                budget -= self._plan_prompt(plan, slot, pending, request)
        if decoding:
            self._plan_decoding(plan, RowView(self._rows, tuple(decoding)), running)
        for spec in plan.draft:
            if spec.recall is not None:
                running[spec.slot].speculation.reads.add(spec.recall.positions, spec.recall.base)
        if self._riders is not None:
            plan.full = self._riders.board(plan.full, self._learning)
        return plan

    def _plan_prompt(self, plan: StepPlan, slot: int, pending: int, request: Request) -> int:
        """The next part of a prompt; parts are of equal length, so that the last one has queries for the importance."""
        count = math.ceil(pending / math.ceil(pending / CHUNK))
        wants_all = request.params.prompt_logprobs is not None or self._drafter.wants_prompt_topk
        if count < pending:
            plan.prefill.append(self._spec(slot, count, outputs=count if wants_all else 0))
        else:
            importance = min(count, self._importance(slot))
            self._learning.add(slot)
            plan.full.append(self._spec(slot, count, count if wants_all else 1, importance))
        return count

    def _plan_decoding(self, plan: StepPlan, view: RowView, running: dict[int, Request]) -> None:
        decisions = self._pacer.decide(view, [self._room(slot) for slot in view.slots])
        for slot, choice in decisions.choices.items():
            running[slot].speculation.choices.append(choice)
        wants = [action is Action.DRAFT and slot not in self.halted
                 for action, slot in zip(decisions.actions, view.slots, strict=True)]  # fmt: skip
        ready = self._drafter.ready(view)
        starting = [wanted and can for wanted, can in zip(wants, ready, strict=True)]
        drafting = view.pick(starting)
        room = [left for left, start in zip(decisions.room, starting, strict=True) if start]
        for group, own in self._groups(drafting, room):
            self._draft(plan, group, own)
        waiting = {spec.slot for spec in plan.draft}
        due = RowView(self._rows, tuple(slot for slot in view.slots if slot not in waiting and self._drafted(slot)))
        if len(due) and self._spines is not None:
            self._branch(self._spines, due)
        elif len(due) and self._rolls_back:
            self._trim(due)
        for slot, action in zip(view.slots, decisions.actions, strict=True):
            if slot not in waiting:
                self._plan_full(plan, slot, learn=action is not Action.PLAIN)

    def _groups(self, view: RowView, room: list[int]) -> list[tuple[RowView, list[int]]]:
        """The rows that one plan is asked for, each with its room: all of them, unless the drafter mixes two kinds."""
        mixed = mixed_of(self._drafter)
        kinds = [False] * len(room) if mixed is None else mixed.at_once(view)
        groups = []
        for kind in sorted(set(kinds)):
            mine = [own is kind for own in kinds]
            groups.append((view.pick(mine), [left for left, own in zip(room, mine, strict=True) if own]))
        return groups

    def _importance(self, slot: int) -> int:
        mixed = mixed_of(self._drafter)
        return self._drafter.importance if mixed is None else mixed.importance_of(slot)

    def _draft(self, plan: StepPlan, view: RowView, room: list[int]) -> None:
        planned = self._drafter.plan(view, room)
        check_planned(self._drafter, planned, Asked(room, self._rows.max_draft, self._vocab))
        if isinstance(planned, Draft):
            self._fill(view, planned)
        else:
            for spec in planned:
                spec.sequence.reserve(spec.stop)
            plan.draft += planned

    def _fill(self, view: RowView, draft: Draft) -> None:
        """Puts whole drafts into the rows, then cuts them to what is worth verifying (and, of trees, has a place)."""
        for slot, (start, end) in zip(view.slots, pairwise(draft.offsets), strict=True):
            if end > start:
                self._rows.put_draft(slot, *_facts(draft, start, end))
        self._trim(view)

    def _branch(self, spines: SpineDrafter, view: RowView) -> None:
        """Hangs branches on the spines that are to be verified, and keeps of them what is worth it."""
        lengths = view.column(self._rows.draft_len)
        room = [self._room(slot) + length for slot, length in zip(view.slots, lengths, strict=True)]
        draft = spines.branch(view, room)
        check_planned(spines, draft, Asked(room, self._rows.max_draft, self._vocab))
        for slot, length, (start, end) in zip(view.slots, lengths, pairwise(draft.offsets), strict=True):
            self._rows.put_branches(slot, min(length, end - start), *_facts(draft, start, end))
        self._trim(view)

    def _trim(self, view: RowView) -> None:
        for slot, keep in zip(view.slots, self._pacer.trim(view), strict=True):
            places = take_places(self._rows, slot) if slot in self._rows.branching else keep
            self._rows.draft_len[slot] = min(keep, places)

    def _drafted(self, slot: int) -> int:
        return int(self._rows.draft_len[slot])

    def _plan_full(self, plan: StepPlan, slot: int, *, learn: bool) -> None:
        drafted = self._drafted(slot)
        learn = learn or drafted > 0
        wanted = self._importance(slot)
        importance = min(drafted + 1, wanted + drafted) if learn and wanted else 0
        self.halted.discard(slot)
        if learn:
            self._learning.add(slot)
        plan.full.append(self._spec(slot, drafted + 1, drafted + 1, importance, self._rows.tree(slot)))

    def _spec(self, slot: int, count: int, outputs: int, importance: int = 0, parents: Tensor | None = None) -> RowSpec:
        sequence, start = self._rows.sequence(slot), int(self._rows.verified_len[slot])
        sequence.reserve(start + count)
        return RowSpec(slot, sequence, start, count, parents=parents, outputs=outputs, importance=importance)

    def _room(self, slot: int) -> int:
        """Draft tokens that could still be of use: the target adds one of its own."""
        rows = self._rows
        have = int(rows.draft_len[slot])
        return min(rows.max_draft - have, int(rows.limit[slot] - rows.committed_len[slot]) - have - 1)


def take_places(rows: Rows, slot: int) -> int:
    """Takes pages for the nodes of a row's tree; returns how many of them have a place.

    A tree has more nodes than the row can still commit tokens: those beyond the pages promised to it only get what is
    promised to nobody.
    """
    sequence, begin = rows.sequence(slot), int(rows.committed_len[slot])
    pool, drafted = sequence.pool, int(rows.draft_len[slot])
    own = max(sequence.capacity, pool.pages_for(int(rows.limit[slot])) * pool.page_size)
    places = min(drafted, own + max(0, pool.spare_pages) * pool.page_size - begin)
    sequence.reserve(begin + places)
    return places


def _facts(draft: Draft, start: int, end: int) -> tuple[Tensor, ...]:
    """What `Rows` keeps of some nodes of a draft."""
    return tuple(fact[start:end] for fact in (draft.tokens, draft.parents, draft.confidence, draft.source))
