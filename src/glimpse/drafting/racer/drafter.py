"""RACER: retrieved n-grams and recycled logits in one draft tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Draft, DraftContext, Drafter, Outcome, Successors
from glimpse.drafting.packed import AnySuccessors, PackedSuccessors
from glimpse.drafting.racer import together
from glimpse.drafting.racer.automaton import Automaton
from glimpse.drafting.racer.merging import merge, unite
from glimpse.drafting.racer.successors import WIDTH, SuccessorTable
from glimpse.drafting.reader import AT_ONCE, LateReader, trees_of
from glimpse.drafting.suffix.source import REHEARSED, SuffixSource
from glimpse.drafting.suffix.store import SuffixStore, keep_written
from glimpse.drafting.tree import Tree, draft_of, nodes_each
from glimpse.errors import ArgumentError

BUDGETS = range(1, 257)


class RacerSource:
    """One request's automaton, successor table and, where wished, suffix matches."""

    def __init__(
        self, suffix: bool = False, store: SuffixStore | None = None, line: NDArray[np.int64] | None = None
    ) -> None:
        """`store`: earlier texts that suffix matches are looked for in as well; `line`: where to write where its arrays
        lie (`racer.together`)."""
        self._automaton, self._table = Automaton(), SuccessorTable()
        self._suffix = SuffixSource(store=store) if suffix else None
        self._line = np.empty(together.LINE, np.int64) if line is None else line
        together.enter(self._line, self._automaton, self._table)

    def read(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the text."""
        if len(tokens) == 0:
            return
        if self._suffix is not None:
            self._suffix.read(tokens)
        self._automaton.read(tokens)

    def recycle(self, successors: AnySuccessors) -> None:
        """Takes over the logits of verified nodes; see `SuccessorTable.write`."""
        successors.enter(self._table)
        together.follow(self._line, self._table)

    def propose(self, budget: int, depth: int) -> Tree:
        """At most `budget` nodes, `depth` tokens deep: long matches, then n-grams, then recycled logits."""
        if depth < 1:
            budget = 0
        if self._suffix is None:
            return unite(self._automaton, self._table, budget, depth)
        retrieved = [self._suffix.propose(budget, depth), self._automaton.propose(budget, depth)]
        return merge(retrieved, self._table, self._automaton.last, budget, depth)

    def learn(self, committed: Sequence[int]) -> None:
        """What came instead of the last proposal, before it is read."""
        if self._suffix is not None:
            self._suffix.learn(committed)


class RacerDrafter(Drafter):
    """RACER, arXiv 2604.14885, for rows whose drafts are made on the host."""

    name = "racer"
    drafts = True
    needs_forward = False
    gives_tree = True
    has_law = False
    wants_successors = True
    wants_prompt_topk = False
    """On a GPU `build` says True."""
    lossless = True
    reads_late = True
    importance = 0

    def __init__(self, budget: int = 64, suffix: bool = False) -> None:
        """`budget` nodes a row; `suffix` adds matches beyond 10 tokens. Raises ArgumentError for a wild budget."""
        if budget not in BUDGETS:
            raise ArgumentError(f"racer drafts of {budget} nodes: give {BUDGETS.start} to {BUDGETS.stop - 1}")
        self.budget, self.suffix = budget, suffix
        self.store: SuffixStore | None = None
        self.priced = False
        self._sources: dict[int, LateReader[RacerSource]] = {}
        self._lines, self._sizes = np.zeros((0, together.LINE), np.int64), together.sizes_of(Automaton())

    @classmethod
    def build(cls, context: DraftContext) -> Self:
        """With the nodes asked for. Compiles the loops (some seconds) where they are not kept from an earlier use.

        Prompts are worth their logits on a GPU only; on a CPU the head costs more than it brings (`docs/retrieval.md`).
        """
        drafter = cls(max(1, context.nodes))
        drafter.store, drafter.priced = context.store, context.priced
        drafter.wants_prompt_topk = context.pool.device.type != "cpu"
        _rehearse(RacerSource(drafter.suffix))
        if not drafter.suffix:
            _rehearse_together(cls())
        return drafter

    @property
    def readers(self) -> Mapping[int, LateReader[RacerSource]]:
        """By slot."""
        return self._sources

    def nodes(self, rows: int) -> int:
        """Of a row's tree, at most, in a batch of `rows`."""
        return nodes_each(self.budget, rows, priced=self.priced)

    def admit(self, rows: RowView) -> None:
        """Prompts are read with the first draft."""
        if not len(self._lines):
            self._lines = np.zeros((rows.rows.capacity, together.LINE), np.int64)
        for slot in rows.slots:
            self._sources[slot] = LateReader(RacerSource(self.suffix, self.store, self._lines[slot]))

    def ready(self, rows: RowView) -> list[bool]:
        """Always."""
        return [True] * len(rows)

    def plan(self, rows: RowView, room: list[int]) -> Draft:
        """A tree a row, at most `room[i]` deep."""
        budget, readers = self.nodes(len(rows)), [self._sources[slot] for slot in rows.slots]
        begins, ends = [reader.position for reader in readers], rows.numbers(rows.rows.arrays.committed)
        if self.suffix or not readers or sum(ends) - sum(begins) > AT_ONCE:
            return draft_of(trees_of(self._sources, rows, room, budget))  # what `together` does, row by row
        for reader, end in zip(readers, ends, strict=True):
            reader.drafted(end)
        return together.draft(rows, self._lines, self._sizes, begins, room, budget)

    def recycle(self, slot: int, successors: AnySuccessors) -> None:
        """Copies logits: of a row's prompt positions, or of its verified nodes, rejected ones included."""
        self._sources[slot].source.recycle(successors)

    def absorb(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Copies the logits of what was verified; the text is read with the next draft."""
        # Looked up before anything is written: where a retired row's table lay is somebody else's now.
        sources = [self._sources[outcome.slot] for outcome in outcomes]
        for outcome in together.recycle(self._lines, outcomes):
            if outcome.successors is not None:
                self.recycle(outcome.slot, outcome.successors)
        for source, outcome in zip(sources, outcomes, strict=True):
            source.hear(outcome.tokens)

    def retire(self, rows: RowView) -> None:
        """Frees everything kept for the rows; what they wrote goes into the store, where there is one."""
        for slot in rows.slots:
            if self._sources.pop(slot, None) is not None:
                keep_written(self.store, rows, slot)

    @staticmethod
    def source_of(store: SuffixStore | None) -> RacerSource:
        """One request's drafts, for the drafter `auto`."""
        return RacerSource()


class RacerSuffixDrafter(RacerDrafter):
    """RACER with suffix matches beyond its n-grams, which come first in the tree."""

    name = "racer+suffix"
    stores = True

    def __init__(self, budget: int = 64) -> None:
        """As `RacerDrafter`."""
        super().__init__(budget, suffix=True)

    @staticmethod
    def source_of(store: SuffixStore | None) -> RacerSource:
        """One request's drafts, for the drafter `auto`."""
        return RacerSource(suffix=True, store=store)


def _rehearse(source: RacerSource) -> None:
    """Runs the loops with each kind of table: numba compiles for one without rows and for one with several apart."""
    source.read(REHEARSED)
    source.propose(1, 1)
    source.recycle(Successors(torch.arange(2), torch.ones(2, WIDTH, dtype=torch.int64), torch.ones(2, WIDTH)))
    source.propose(1, 1)


def _rehearse_together(drafter: RacerDrafter) -> None:
    """Runs the loops over batches: two rows, as one takes its logits over by itself."""
    view = RowView(Rows(2, 2, 1), (0, 1))
    view.rows.committed_len[:] = 1
    drafter.admit(view)
    drafter.plan(view, [1, 1])
    step = np.zeros(2, np.int64), np.zeros((2, 2 * WIDTH), np.int32)
    drafter.absorb(view, [Outcome(row, 0, 0, [], successors=PackedSuccessors(step, row, row + 1)) for row in (0, 1)])
