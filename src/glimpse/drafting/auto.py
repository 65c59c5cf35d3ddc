"""One drafter made of several: which of them drafts for a row, its pacer says (`glimpse.pacing.auto`).

Drafts never change the text, so a row may go from one drafter to another at any step. What a source has not been told
meanwhile it reads from the row's history when it is needed again; a recall set that is out of date is not ready, and a
verification with importance comes first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from glimpse.attention.plan import RowSpec
from glimpse.cache.rows import RowView
from glimpse.drafting import DRAFTERS
from glimpse.drafting.auto_graphs import auto_on_graphs
from glimpse.drafting.block.contract import BlockHead
from glimpse.drafting.block.drafter import BlockDrafter, FlexDrafter
from glimpse.drafting.drafter import Draft, DraftContext, Drafter, Outcome
from glimpse.drafting.racer.drafter import RacerSource
from glimpse.drafting.reader import Reader
from glimpse.drafting.sparse import SparseDrafter
from glimpse.drafting.suffix.store import SuffixStore, keep_written
from glimpse.drafting.tree import HostSource, draft_of

PLAIN = "none"
SELF = SparseDrafter.name
BLOCK = FlexDrafter.name
Makers = Mapping[str, Callable[[SuffixStore | None], HostSource]]


def makers(names: tuple[str, ...] | None = None) -> Makers:
    """How a request's source is made, of every built-in drafter that offers one (`source_of`), or of those named."""
    offered = {name: getattr(DRAFTERS.get(name), "source_of", None) for name in names or DRAFTERS.builtin}
    return {name: maker for name, maker in offered.items() if maker is not None}


@dataclass(slots=True)
class _Row:
    readers: dict[str, Reader[HostSource]] = field(default_factory=dict)
    """Of the sources that have been needed so far."""
    choice: str = PLAIN
    listening: set[str] = field(default_factory=set)
    """Sources that are scored without being used: they take over logits too."""


class AutoDrafter(Drafter):
    """Drafts with the drafter that was chosen for each row (`choose`); nobody drafts for a row at first.

    This is `auto` on a CPU; on a GPU it is another (`drafting.auto_graphs`).
    """

    name = "auto"
    drafts = True
    needs_forward = False
    gives_tree = True
    has_law = False
    wants_prompt_topk = False
    lossless = True
    importance = 0
    mixes = True
    recalls = True
    """It may read a recall set, so budgets mean something to it."""
    stores = True
    takes_adapter = True
    paced_by = "auto"
    """The pacer that it needs."""

    def __init__(
        self, sources: Makers, sparse: SparseDrafter | None, budget: int = 64, store: SuffixStore | None = None,
        block: BlockDrafter | None = None,
    ) -> None:  # fmt: skip
        """`sources` are its host drafters by name; without `sparse` nothing drafts by forwards, without `block` no mask
        token rides in one."""
        self.budget, self.store, self.sparse, self.block = budget, store, sparse, block
        self.wants_hidden = block is not None
        self.spent = 0.0
        """Seconds that drafting on the host has taken so far."""
        self._sources = sources
        self._rows: dict[int, _Row] = {}

    @classmethod
    def build(cls, context: DraftContext) -> Drafter:
        """With all candidates, blocks among them where there is an adapter; on a GPU what goes with its engine.

        Raises what `auto_on_graphs` and `FlexDrafter.build` raise.
        """
        if context.pool.device.type != "cpu":
            return auto_on_graphs(context)
        _compile(context)
        adapter = None if context.target is None else context.target.adapter
        block = None if adapter is None else FlexDrafter.build(context)
        return cls(makers(), SparseDrafter.build(context), max(1, context.nodes), context.store, block)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names of all that may draft, plain decoding first."""
        return (PLAIN, *self._sources, *((SELF,) if self.sparse else ()), *((BLOCK,) if self.block else ()))

    @property
    def head(self) -> BlockHead:
        """Of the blocks. Asked only where there is one (`wants_hidden`)."""
        if self.block is None:
            raise AssertionError("drafter 'auto' was given no adapter")
        return self.block.head

    def rides(self, slot: int) -> bool:
        """Where blocks are drafted for the row."""
        return self.block is not None and self._rows[slot].choice == BLOCK

    @property
    def wants_successors(self) -> bool:
        """Whether any row recycles logits now."""
        return any(self.recycles(slot) for slot in self._rows)

    def admit(self, rows: RowView) -> None:
        """Sources read the prompt of a request that is alone: that is cheap, and none has to do it while text is waited
        for. In a batch, where few may ever be needed, each does when it is first asked."""
        alone = len(rows) == 1 and not self._rows
        for slot in rows.slots:
            self._rows[slot] = _Row()
            for name in self._sources if alone else ():
                self._reader(rows, slot, name)
        if self.sparse:
            self.sparse.admit(rows)

    def choose(self, slot: int, name: str) -> None:
        """Who drafts for a row from now on; a proposal that is under way is dropped."""
        row = self._rows[slot]
        row.choice = name
        row.listening.discard(name)
        if name in row.readers:
            row.readers[name].source.learn([])

    def chosen(self, slot: int) -> str:
        """Who drafts for a row."""
        return self._rows[slot].choice

    def listen(self, rows: RowView, slot: int, name: str) -> Reader[HostSource]:
        """Tells a source that does not draft of logits all the same; returns it, and it has read the prompt."""
        self._rows[slot].listening.add(name)
        return self._reader(rows, slot, name)

    def ignore(self, slot: int, name: str) -> None:
        """Ends that."""
        self._rows[slot].listening.discard(name)

    def recycles(self, slot: int) -> bool:
        """Whether a row's logits are wanted."""
        return next(self._recyclers(self._rows[slot]), None) is not None

    def at_once(self, rows: RowView) -> list[bool]:
        """All but the rows that draft for themselves."""
        return [self._rows[slot].choice != SELF for slot in rows.slots]

    def importance_of(self, slot: int) -> int:
        """Attention weights are for rows that draft for themselves."""
        return self.sparse.importance if self.sparse and self._rows[slot].choice == SELF else 0

    def ready(self, rows: RowView) -> list[bool]:
        """A source always is; a recall set where it has seen the newest verified query, a block where it is there."""
        known = {name: part.ready(rows) for name, part in ((SELF, self.sparse), (BLOCK, self.block)) if part}
        choices = [self._rows[slot].choice for slot in rows.slots]
        return [known[choice][place] if choice in known else True for place, choice in enumerate(choices)]

    def plan(self, rows: RowView, room: list[int]) -> list[RowSpec] | Draft:
        """Whole drafts, or one token a row: of rows that are all of one kind (`at_once`)."""
        if self.sparse and not all(self.at_once(rows)):
            return self.sparse.plan(rows, room)
        readers = {slot: self._reader(rows, slot, self._rows[slot].choice) for slot in rows.slots
                   if self._rows[slot].choice != BLOCK}  # fmt: skip
        begun, trees = time.perf_counter(), []
        for slot, depth in zip(rows.slots, room, strict=True):
            choice, most = self._rows[slot].choice, min(self.budget, rows.rows.max_draft)
            if self.block and choice == BLOCK:
                trees.append(self.block.offer(rows, slot, min(most, depth)))
                continue
            reader = readers[slot]
            reader.catch_up(rows.history(slot))
            trees.append(reader.source.propose(most, depth))
        self.spent += time.perf_counter() - begun
        return draft_of(trees)

    def absorb(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Who drafted learns at once; others read when they are needed."""
        begun = time.perf_counter()
        for outcome in outcomes:
            row = self._rows[outcome.slot]
            if outcome.successors is not None:
                for source in self._recyclers(row):
                    source.recycle(outcome.successors)
            if row.choice in row.readers:
                reader = row.readers[row.choice]
                reader.source.learn(outcome.tokens)
                reader.catch_up(rows.history(outcome.slot))
        self.spent += time.perf_counter() - begun
        if self.sparse:
            self.sparse.absorb(rows, outcomes)
        if self.block:
            self.block.absorb(rows, [outcome for outcome in outcomes if self.rides(outcome.slot)])

    def retire(self, rows: RowView) -> None:
        """Frees everything kept for the rows; what they wrote goes into the store, where there is one."""
        for slot in rows.slots:
            if self._rows.pop(slot, None) is not None:
                keep_written(self.store, rows, slot)
        for part in (self.sparse, self.block):
            if part:
                part.retire(rows)

    def _reader(self, rows: RowView, slot: int, name: str) -> Reader[HostSource]:
        """A row's source; one that is new reads all there is, which is nobody's round."""
        readers = self._rows[slot].readers
        if name not in readers:
            readers[name] = Reader(self._sources[name](self.store))
            readers[name].catch_up(rows.history(slot))
        return readers[name]

    @staticmethod
    def _recyclers(row: _Row) -> Iterator[RacerSource]:
        for name in (row.choice, *row.listening):
            if name in row.readers and isinstance(source := row.readers[name].source, RacerSource):
                yield source


def _compile(context: DraftContext) -> None:
    """Compiles the loops of all sources where they are not kept from an earlier use."""
    for name in makers():
        DRAFTERS.get(name).build(context)
