"""`sparse` with branches: each draft token's runners-up, and recycled logits behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glimpse.attention.plan import RowSpec
from glimpse.cache.pool import PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Draft, DraftContext, Drafter, Outcome
from glimpse.drafting.packed import AnySuccessors
from glimpse.drafting.racer.successors import SuccessorTable
from glimpse.drafting.sparse import SparseDrafter
from glimpse.drafting.spine.growing import Choices, Growth, Spine
from glimpse.drafting.tree import Source, Tree, draft_of

MOST = 64
"""Nodes of a tree, unless the spine alone may have more."""
NODES_A_TOKEN = 4
"""Nodes of a tree for every token that its spine may have, up to MOST."""
SHARPNESS = 0.3
"""The chances of a draft token and its runners-up are softmax(scores / SHARPNESS): how far the scores of draft and
target lie apart. Of 0.15 to 1, 0.2 and 0.3 foretold best what the target picked, greedy and sampled (log-loss on book
text, 4,000 tokens)."""
BRANCHES = frozenset({Source.RUNNER_UP, Source.LOGITS})


@dataclass(slots=True)
class _RowState:
    """What is kept of one row."""

    table: SuccessorTable = field(default_factory=SuccessorTable)
    heard: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = field(default_factory=list)
    """Of each draft token of this round."""

    def following(self, token: int) -> Choices:
        """What came after a token the last time that the target read it."""
        if not 0 <= token < len(self.table.tokens):
            return ()
        pairs = zip(self.table.tokens[token].tolist(), self.table.chances[token].tolist(), strict=True)
        return [(after, chance) for after, chance in pairs if chance > 0]

    def spine(self, tokens: list[int]) -> Spine:
        """The row's draft with what was heard of it."""
        chances, beside = [], []
        for token, (ids, scores) in zip(tokens, self.heard, strict=True):
            weights = np.exp((scores - scores.max()) / SHARPNESS)
            pairs = list(zip(ids.tolist(), (weights / weights.sum()).tolist(), strict=True))
            # Of a greedy row whose processors changed the choice, the token is not the first, perhaps not there at all.
            chances.append(next((chance for other, chance in pairs if other == token), pairs[0][1]))
            beside.append([pair for pair in pairs if pair[0] != token])
        return Spine(tokens, chances, beside)


class SparseRacerDrafter(Drafter):
    """A spine drafted over a RecallSet, with what else might have been drafted hung on it.

    Under `coupled`, draft and target draw with the same noise, so where the target does not pick the draft's token it
    most often picks its runner-up: the token that the draft would have drawn, were the first not there. Branches go on
    with recycled logits (RACER, arXiv 2604.14885, section 3), as does the end of the spine.
    """

    name = "sparse+racer"
    drafts = True
    needs_forward = True
    gives_tree = True
    has_law = False
    """The spine is drawn from one, but not all that was drawn is verified."""
    wants_successors = True
    wants_prompt_topk = False
    """On a GPU `build` says True."""
    lossless = True
    importance = SparseDrafter.importance
    candidates = 8

    def __init__(
        self,
        pool: PagePool,
        recall: RecallBudget | None = None,
        nodes: int = MOST,
        sources: frozenset[Source] = BRANCHES,
    ) -> None:
        """Trees of at most `nodes` nodes; `sources` are those of their branches."""
        self._sparse = SparseDrafter(pool, recall)
        self.budget, self._sources = nodes, sources
        self._states: dict[int, _RowState] = {}

    @classmethod
    def build(cls, context: DraftContext) -> SparseRacerDrafter:
        """Over the engine's pool, with the recall asked for; `context.nodes` is how long a spine may be."""
        nodes = max(1, context.nodes, min(MOST, NODES_A_TOKEN * context.nodes))
        drafter = cls(context.pool, context.budget, nodes)
        drafter.wants_prompt_topk = context.pool.device.type != "cpu"
        return drafter

    def admit(self, rows: RowView) -> None:
        """Empty sets and tables for each request."""
        self._sparse.admit(rows)
        for slot in rows.slots:
            self._states[slot] = _RowState()

    def ready(self, rows: RowView) -> list[bool]:
        """True where the newest verified query has been seen."""
        return self._sparse.ready(rows)

    def plan(self, rows: RowView, room: list[int]) -> list[RowSpec]:
        """The next token of each spine."""
        for slot, drafted in zip(rows.slots, rows.column(rows.rows.draft_len), strict=True):
            if drafted == 0:
                self._states[slot].heard.clear()
        return self._sparse.plan(rows, room)

    def hear(self, slot: int, tokens: Tensor, scores: Tensor) -> None:
        """See `SpineDrafter`."""
        self._states[slot].heard.append((tokens.numpy(), scores.numpy()))

    def branch(self, rows: RowView, room: list[int]) -> Draft:
        """The spines with their branches, at most `budget` nodes a row."""
        return draft_of([self._tree(rows, slot, depth) for slot, depth in zip(rows.slots, room, strict=True)])

    def recycle(self, slot: int, successors: AnySuccessors) -> None:
        """Copies logits: of a row's prompt positions, or of its verified nodes, rejected ones included."""
        successors.enter(self._states[slot].table)

    def absorb(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """The accepted queries' weights, and the logits of everything that was verified."""
        self._sparse.absorb(rows, outcomes)
        for outcome in outcomes:
            if outcome.successors is not None:
                self.recycle(outcome.slot, outcome.successors)

    def retire(self, rows: RowView) -> None:
        """Frees everything kept for the rows."""
        self._sparse.retire(rows)
        for slot in rows.slots:
            self._states.pop(slot, None)

    def _tree(self, rows: RowView, slot: int, depth: int) -> Tree:
        begin, count, state = int(rows.rows.committed_len[slot]), int(rows.rows.draft_len[slot]), self._states[slot]
        spine = state.spine(rows.rows.tokens[slot, begin : begin + count].tolist())
        return Growth(self.budget, depth, state.following, self._sources).grow(spine)
