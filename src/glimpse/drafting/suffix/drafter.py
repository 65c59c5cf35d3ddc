"""Suffix decoding: drafts what followed the longest match of a request's end, the longer the match the more."""

from __future__ import annotations

from collections.abc import Mapping

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Draft, DraftContext, Drafter, Outcome
from glimpse.drafting.reader import LateReader, trees_of
from glimpse.drafting.suffix.source import FACTOR, SuffixSource
from glimpse.drafting.suffix.store import SuffixStore, keep_written
from glimpse.drafting.tree import draft_of, nodes_each
from glimpse.errors import ArgumentError


class SuffixDrafter(Drafter):
    """SuffixDecoding (arXiv 2411.04975) on a suffix automaton: matches of unlimited length, O(1) a token.

    With a `store`, requests also match what earlier ones wrote, and leave behind what they wrote.
    """

    name = "suffix"
    stores = True
    """It can match in a store of earlier requests."""
    drafts = True
    needs_forward = False
    gives_tree = True
    has_law = False
    wants_successors = False
    wants_prompt_topk = False
    lossless = True
    reads_late = True
    importance = 0

    def __init__(self, budget: int = 64, factor: float = FACTOR, store: SuffixStore | None = None) -> None:
        """At most `budget` nodes, and `factor` nodes a matched token. Raises ArgumentError where nothing could come."""
        if budget < 1 or factor <= 0:
            raise ArgumentError(f"suffix drafts of {budget} nodes, factor {factor}: give at least 1 node, a factor > 0")
        self.budget, self.factor, self.store, self.priced = budget, factor, store, False
        self._sources: dict[int, LateReader[SuffixSource]] = {}

    @classmethod
    def build(cls, context: DraftContext) -> SuffixDrafter:
        """With the nodes and the store asked for. Compiles the loops where they are not kept from an earlier use."""
        SuffixSource.rehearse()
        drafter = cls(max(1, context.nodes), store=context.store)
        drafter.priced = context.priced
        return drafter

    @staticmethod
    def source_of(store: SuffixStore | None) -> SuffixSource:
        """One request's drafts, for the drafter `auto`."""
        return SuffixSource(store=store)

    @property
    def readers(self) -> Mapping[int, LateReader[SuffixSource]]:
        """By slot."""
        return self._sources

    def nodes(self, rows: int) -> int:
        """Of a row's tree, at most, in a batch of `rows`."""
        return nodes_each(self.budget, rows, priced=self.priced)

    def admit(self, rows: RowView) -> None:
        """Prompts are indexed with the first draft."""
        for slot in rows.slots:
            self._sources[slot] = LateReader(SuffixSource(self.factor, self.store))

    def ready(self, rows: RowView) -> list[bool]:
        """Always."""
        return [True] * len(rows)

    def plan(self, rows: RowView, room: list[int]) -> Draft:
        """A tree a row, at most `room[i]` deep."""
        return draft_of(trees_of(self._sources, rows, room, self.nodes(len(rows))))

    def absorb(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Learns what the drafts were worth; the text is indexed with the next one."""
        for outcome in outcomes:
            self._sources[outcome.slot].hear(outcome.tokens)

    def retire(self, rows: RowView) -> None:
        """Drops the indexes; what the rows wrote goes into the store, where there is one."""
        for slot in rows.slots:
            if self._sources.pop(slot, None) is not None:
                keep_written(self.store, rows, slot)
