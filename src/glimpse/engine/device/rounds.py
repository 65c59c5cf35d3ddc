"""Rounds of a synchronous batch on the device: draft gamma tokens, verify them, accept, choose the next recall sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.attention.triton.attention import HeadShape, Importance, Paged
from glimpse.attention.triton.recalled import Recalled
from glimpse.attention.triton.rows import Fed, commit, feed, record
from glimpse.attention.triton.select import Selection
from glimpse.cache.pool import PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.choose import Choose
from glimpse.engine.device.forward import FusedForward
from glimpse.engine.device.graphs import Graphs
from glimpse.engine.device.state import DeviceRecall, DeviceRows
from glimpse.engine.device.window import ExactWindow
from glimpse.errors import ArgumentError
from glimpse.model import Decoder
from glimpse.model.embedding import DenseEmbedding


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """How a synchronous batch drafts."""

    budget: RecallBudget
    decay: float = 0.5
    """What is left of a position's importance after a round (docs/performance-gpu.md)."""
    window: int = 0
    """Instead of the kernels' statistic, the paper's exact one over that many accepted queries (16 there): slow."""


class DeviceRounds:
    """Runs the rows' steps as CUDA graphs; the host only reads what was committed.

    Coupled acceptance: draft and target pick with the same noise, so the text is that of plain sampling.
    """

    def __init__(
        self,
        decoder: Decoder,
        pool: PagePool,
        rows: DeviceRows,
        recall: DeviceRecall,
        settings: RoundSettings,
        vocab: int,
    ) -> None:
        """`vocab`: ids below it may be picked (the tokenizer's size)."""
        spec = decoder.spec
        self.rows, self.recall, self.settings = rows, recall, settings
        self._decoder, self._pool = decoder, pool
        self._shape = HeadShape(spec.heads, spec.kv_heads, spec.head_dim)
        self.forward = FusedForward(decoder, pool, rows.tokens.shape[1])
        self._vocab = vocab
        self._embedding = dense_embedding(decoder)
        self._choose: dict[int, Choose] = {}
        self._recalled = Recalled(self._shape, rows.size, pool.page_size, decoder.device)
        self._paged: dict[int, Paged] = {}
        budget = settings.budget
        self._select = Selection(pool.page_size, budget.sinks, budget.recent)
        self._budgets = torch.zeros(rows.size, dtype=torch.int32, device=decoder.device)
        self._decays = torch.zeros(rows.size, dtype=torch.float32, device=decoder.device)
        self._window: ExactWindow | None = None
        if settings.window:
            width, most = recall.fresh.shape[-1], rows.committed.shape[1]
            self._window = ExactWindow(
                self._shape, spec.layers, rows.size, width, most, settings.window, decoder.device
            )
        self.graphs = Graphs(decoder.device)

    def begin(self) -> None:
        """Chooses the first recall sets from the scores that the prefill left in `recall.fresh`."""
        lengths = self.rows.length - 1
        wanted = [self.settings.budget.positions(length) for length in lengths.tolist()]
        self._budgets.copy_(torch.tensor(wanted))
        self._decays.zero_()
        self._choose_sets(lengths * self.rows.active, lengths)
        if self._window is None:
            self._decays.fill_(self.settings.decay)
        else:
            self._window.begin(self.recall.fresh)

    def plain(self) -> None:
        """One plain step of every active row."""
        self._prepare(1)
        self._run(("plain",), lambda: self._verify(1, learn=False))

    def draft(self, count: int) -> None:
        """Drafts `count` more tokens for every active row."""
        self._prepare(1)
        for _ in range(count):
            self._run(("draft",), self._draft)

    def verify(self, count: int, *, learn: bool = True) -> None:
        """Verifies drafts of `count` tokens and commits what is accepted, and the target's own token.

        Without `learn` the recall sets stay as they are.
        """
        self._prepare(count + 1)
        self._run(("verify", count, learn), lambda: self._verify(count + 1, learn=learn))

    def select(self) -> None:
        """Chooses the recall sets anew from the scores there are."""
        lengths = self.rows.length - 1
        self._choose_sets(lengths * self.rows.active, lengths)

    def refresh(self) -> None:
        """Takes over new sampling settings and seeds of the rows."""
        for choose in self._choose.values():
            choose.refresh()

    def _run(self, key: tuple[object, ...], function: Callable[[], None]) -> None:
        if key in self.graphs:
            self.graphs.replay(key)
            return
        state = [self.rows.tokens, self.rows.length, self.rows.drafted, self.rows.active]
        state += [self.recall.scores, self.recall.reference]
        state += [] if self._window is None else self._window.state
        kept = [tensor.clone() for tensor in state]

        def restore() -> None:
            for tensor, old in zip(state, kept, strict=True):
                tensor.copy_(old)

        self.graphs.run(key, function, restore)

    def _feed(self, count: int, *, drafting: bool = False) -> Fed:
        """The next `count` tokens of every row, behind the draft so far or from the last committed one on."""
        rows = self.rows
        return feed(
            rows.tokens, rows.length, rows.drafted if drafting else None, rows.active, rows.table, self._embedding,
            count, self._pool.page_size,
        )  # fmt: skip

    def _draft(self) -> None:
        rows, recall, fed = self.rows, self.recall, self._feed(1, drafting=True)

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values = self._pool.keys[layer], self._pool.values[layer]
            slots = recall.slots[layer]
            return self._recalled(q, keys, values, slots, recall.count, recall.base, fed.lengths, rows.table)

        hidden = self.forward(fed.embedded, fed.positions, fed.slots, mix)
        chosen = self._choose[1](self._decoder.head(hidden), fed.positions)
        record(
            rows.tokens, fed.positions, chosen.tokens, chosen.probabilities, chosen.entropies, rows.drafted,
            rows.active, rows.confidence, rows.entropy,
        )  # fmt: skip

    def _verify(self, count: int, *, learn: bool) -> None:
        rows, fed, paged, window = self.rows, self._feed(count), self._paged[count], self._window
        paged.plan(fed.lengths)

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values = self._pool.keys[layer], self._pool.values[layer]
            importance = self._importance(layer) if learn and window is None else None
            if learn and window is not None:
                window.observe(layer, q, keys, rows.table, self._pool.page_size, fed.lengths)
            return paged(q, keys, values, rows.table, fed.lengths, importance=importance)

        hidden = self.forward(fed.embedded, fed.positions, fed.slots, mix)
        picks = self._choose[count](self._decoder.head(hidden), fed.positions).tokens
        scored, known = commit(
            rows.tokens, fed, picks, rows.length, rows.drafted, rows.active, rows.limit, rows.counts, rows.committed
        )
        if learn and window is not None:
            window.settle(rows.counts, self.recall.fresh)
        if learn:
            self._choose_sets(known, scored)

    def _choose_sets(self, lengths: Tensor, scored: Tensor) -> None:
        recall = self.recall
        recall.base.copy_(lengths)
        self._select(
            recall.fresh, scored, lengths, self._budgets, self.rows.table, recall.slots, recall.count,
            running=recall.scores, decays=self._decays,
        )  # fmt: skip

    def _importance(self, layer: int) -> Importance:
        reference = self.recall.reference[layer]
        return Importance(self.recall.fresh[layer], reference, reference)

    def _prepare(self, count: int) -> None:
        """Buffers for rows of `count` query tokens: they must be there before a capture begins.

        Raises ArgumentError for more tokens than the rows were made for.
        """
        most = self.rows.committed.shape[1]
        if count > most:
            raise ArgumentError(f"a draft of {count - 1} tokens; these rows were made for at most {most - 1}")
        if count not in self._paged:
            page_size, device = self._pool.page_size, self._decoder.device
            self._paged[count] = Paged(self._shape, self.rows.size, count, page_size, device)
            self._choose[count] = Choose(self.rows, count, self._vocab)


def dense_embedding(decoder: Decoder) -> Tensor:
    """The embedding's table [vocab, hidden]. Raises ArgumentError where it is not on the device."""
    if not isinstance(decoder.embedding, DenseEmbedding):
        raise ArgumentError("device rounds need the embedding in memory; this one is read from its file")
    return decoder.embedding.weight
