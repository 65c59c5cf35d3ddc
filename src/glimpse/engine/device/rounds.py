"""Rounds of a synchronous batch on the device: draft gamma tokens, verify them, accept, choose the next recall sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.attention.triton.attention import HeadShape, Importance, Paged
from glimpse.attention.triton.recalled import Recalled
from glimpse.attention.triton.select import Selection
from glimpse.cache.pool import PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.choose import Choose
from glimpse.engine.device.forward import FusedForward
from glimpse.engine.device.graphs import Graphs
from glimpse.engine.device.state import DeviceRecall, DeviceRows
from glimpse.model import Decoder


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """How a synchronous batch drafts."""

    budget: RecallBudget
    decay: float = 0.5
    """What is left of a position's importance after a round (docs/performance.md)."""


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
        self._choose: dict[int, Choose] = {}
        self._recalled = Recalled(self._shape, rows.size, pool.page_size, decoder.device)
        self._paged: dict[int, Paged] = {}
        budget = settings.budget
        self._select = Selection(pool.page_size, budget.sinks, budget.recent)
        self._budgets = torch.zeros(rows.size, dtype=torch.int32, device=decoder.device)
        self._decays = torch.zeros(rows.size, dtype=torch.float32, device=decoder.device)
        self.graphs = Graphs(decoder.device)

    def begin(self) -> None:
        """Chooses the first recall sets from the scores that the prefill left in `recall.fresh`."""
        lengths = self.rows.length - 1
        wanted = [self.settings.budget.positions(length) for length in lengths.tolist()]
        self._budgets.copy_(torch.tensor(wanted))
        self._decays.zero_()
        self._choose_sets(lengths, lengths)
        self._decays.fill_(self.settings.decay)

    def plain(self) -> None:
        """One plain step of every active row."""
        self._prepare(1)
        self._run(("plain",), lambda: self._verify(1, learn=False))

    def draft(self, count: int) -> None:
        """Drafts `count` more tokens for every active row."""
        self._prepare(1)
        for _ in range(count):
            self._run(("draft",), self._draft)

    def verify(self, count: int) -> None:
        """Verifies drafts of `count` tokens and commits what is accepted, and the target's own token."""
        self._prepare(count + 1)
        self._run(("verify", count), lambda: self._verify(count + 1, learn=True))

    def _run(self, key: tuple[object, ...], function: Callable[[], None]) -> None:
        state = [self.rows.tokens, self.rows.length, self.rows.drafted, self.rows.active]
        if key in self.graphs:
            self.graphs.replay(key)
            return
        kept = [tensor.clone() for tensor in state] + [self.recall.scores.clone(), self.recall.reference.clone()]

        def restore() -> None:
            for tensor, old in zip([*state, self.recall.scores, self.recall.reference], kept, strict=True):
                tensor.copy_(old)

        self.graphs.run(key, function, restore)

    def _feed(self, first: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens, positions and slots [B * count] from position `first` [B] on; idle rows get slot -1."""
        rows, size = self.rows, self._pool.page_size
        positions = first[:, None].long() + torch.arange(count, device=first.device)
        positions = positions.clamp_max(rows.tokens.shape[1] - 1)
        pages = rows.table.gather(1, positions // size).long()
        slots = torch.where(rows.active[:, None] > 0, pages * size + positions % size, -1)
        return rows.tokens.gather(1, positions).flatten(), positions.flatten(), slots.flatten()

    def _draft(self) -> None:
        rows, recall = self.rows, self.recall
        first = rows.length - 1 + rows.drafted
        lengths = (first + 1) * rows.active

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values = self._pool.keys[layer], self._pool.values[layer]
            return self._recalled(q, keys, values, recall.slots[layer], recall.count, recall.base, lengths, rows.table)

        tokens, positions, slots = self._feed(first, 1)
        hidden = self.forward(tokens, positions, slots, mix)
        chosen = self._choose[1](self._decoder.head(hidden), positions + 1)
        place = rows.drafted[:, None].long().clamp_max(rows.entropy.shape[1] - 1)
        after = positions[:, None] + 1
        kept = torch.where(rows.active[:, None] > 0, chosen.tokens[:, None], rows.tokens.gather(1, after))
        rows.tokens.scatter_(1, after, kept)
        rows.confidence.scatter_(1, place, chosen.probabilities[:, None])
        rows.entropy.scatter_(1, place, chosen.entropies[:, None])
        rows.drafted.add_(rows.active)

    def _verify(self, count: int, *, learn: bool) -> None:
        rows = self.rows
        first = rows.length - 1
        lengths = (first + count) * rows.active
        paged = self._paged[count]
        paged.plan(lengths)

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values = self._pool.keys[layer], self._pool.values[layer]
            return paged(q, keys, values, rows.table, lengths, importance=self._importance(layer) if learn else None)

        tokens, positions, slots = self._feed(first, count)
        hidden = self.forward(tokens, positions, slots, mix)
        picks = self._choose[count](self._decoder.head(hidden), positions + 1).tokens
        self._commit(picks.view(-1, count), tokens.view(-1, count)[:, 1:], positions.view(-1, count) + 1)
        rows.active.mul_((rows.length + rows.committed.shape[1] <= rows.limit).int())
        if learn:
            self._choose_sets(rows.length - 1, first)

    def _commit(self, picks: Tensor, drafts: Tensor, places: Tensor) -> None:
        """Keeps the picks up to the first that differs from the draft, that one included."""
        rows, count = self.rows, picks.shape[1]
        accepted = (picks[:, :-1] == drafts).int().cumprod(1).sum(1, dtype=torch.int32)
        rows.counts.copy_((accepted + 1) * rows.active)
        kept = torch.arange(count, device=picks.device) < rows.counts[:, None]
        rows.committed[:, :count].copy_(picks)
        rows.tokens.scatter_(1, places, torch.where(kept, picks, rows.tokens.gather(1, places)))
        rows.length.add_(rows.counts)
        rows.drafted.zero_()

    def _choose_sets(self, lengths: Tensor, scored: Tensor) -> None:
        recall = self.recall
        lengths = lengths * self.rows.active
        self._select(
            recall.fresh, scored, lengths, self._budgets, self.rows.table, recall.slots, recall.count,
            running=recall.scores, decays=self._decays,
        )  # fmt: skip
        recall.base.copy_(lengths)

    def _importance(self, layer: int) -> Importance:
        reference = self.recall.reference[layer]
        return Importance(self.recall.fresh[layer], reference, reference)

    def _prepare(self, count: int) -> None:
        """Buffers for rows of `count` query tokens: they must be there before a capture begins."""
        if count not in self._paged:
            page_size, device = self._pool.page_size, self._decoder.device
            self._paged[count] = Paged(self._shape, self.rows.size, count, page_size, device)
            self._choose[count] = Choose(self.rows, count, self._vocab)
