"""The device code of a step: what all rows feed, the forward, what is drafted or committed, the next recall sets."""

from __future__ import annotations

from torch import Tensor

from glimpse.attention.triton.attention import Importance
from glimpse.attention.triton.recalled import Recalled
from glimpse.attention.triton.rows import Fed, commit, feed, record
from glimpse.engine.device.choose import Choose
from glimpse.engine.device.core import Core
from glimpse.engine.device.relaxed import Relaxing
from glimpse.engine.device.settings import Learn
from glimpse.errors import ArgumentError, GlimpseError


class Work:
    """Steps of the first `size` rows with `queries` tokens of each; its buffers must outlive graphs captured of it.

    Coupled acceptance: draft and target pick with the same noise, so the text is that of plain sampling, unless a lossy
    rule is asked for (`Core.relaxes`).
    """

    def __init__(self, core: Core, size: int, queries: int) -> None:
        """Raises ArgumentError for more tokens than the rows were made for, and for some of the rows where the exact
        statistic is asked for, which knows all of them only."""
        self._core, self._queries, self._rows = core, queries, core.rows.first(size)
        most, device = self._rows.most, core.decoder.device
        if queries > most + 1:
            raise ArgumentError(f"a draft of {queries - 1} tokens; these rows were made for at most {most}")
        if core.window is not None and size != core.rows.size:
            raise ArgumentError(f"the exact statistic of {core.rows.size} rows cannot be kept for {size} of them")
        self.choose = Choose(self._rows, queries, core.vocab)
        relaxes = core.relaxes if queries > 1 else None
        self._relaxing = Relaxing(relaxes, self.choose.sample, self.choose.settings) if relaxes else None
        self._paged = core.paged(size, queries)
        self._recall = core.recall.first(size) if core.drafts else None
        self._recalled = Recalled(core.shape, size, core.pool.page_size, device) if queries == 1 else None
        self._kept = core.scored[:size], core.known[:size]
        self._version = core.version

    def renew(self) -> None:
        """Takes over sampling settings and seeds where they have changed; graphs that were captured stay valid."""
        if self._version != self._core.version:
            self.choose.refresh()
            self._version = self._core.version

    def draft(self) -> None:
        """One more draft token for every active row with room for it; of one query token."""
        rows, core, recall, recalled = self._rows, self._core, self._recall, self._recalled
        if recall is None or recalled is None:
            raise GlimpseError("a draft step has one token a row, and a recall set to read")
        fed = self._feed(drafting=True)

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values, slots = core.pool.keys[layer], core.pool.values[layer], recall.slots[layer]
            return recalled(q, keys, values, slots, recall.count, recall.base, fed.lengths, rows.table)

        hidden = core.forward(fed.embedded, fed.positions, fed.slots, mix)
        chosen = self.choose(core.forward.logits(hidden), fed.positions)
        record(
            rows.tokens, fed.positions, chosen.tokens, chosen.probabilities, chosen.entropies, rows.drafted,
            fed.lengths, rows.confidence, rows.entropy,
        )  # fmt: skip

    def verify(self, learn: Learn) -> None:
        """Verifies what each row has drafted, commits what is accepted and the target's own token."""
        rows, core, fed, paged = self._rows, self._core, self._feed(), self._paged
        paged.plan(fed.lengths)

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values = core.pool.keys[layer], core.pool.values[layer]
            importance = None
            if learn and core.window is None:
                importance = self._importance(layer)
            elif learn and core.window is not None:
                core.window.observe(layer, q, keys, rows.table, core.pool.page_size, fed.lengths)
            return paged(q, keys, values, rows.table, fed.lengths, counts=fed.counts, importance=importance)

        logits = core.forward.logits(core.forward(fed.embedded, fed.positions, fed.slots, mix))
        picks = self.choose(logits, fed.positions)
        loose = self._relaxing(logits, fed) if self._relaxing else None
        core.known.zero_()
        commit(
            rows.tokens, fed, picks.tokens, picks.entropies, rows.length, rows.drafted, rows.active, rows.limit,
            rows.report.verdict, out=self._kept, loose=loose,
        )  # fmt: skip
        if learn and core.window is not None:
            core.window.settle(rows.counts, core.recall.fresh)
        if learn:
            core.choose_sets(learn)

    def _feed(self, *, drafting: bool = False) -> Fed:
        """The next tokens of every row: behind its draft, or its last committed token and its draft."""
        rows, core = self._rows, self._core
        return feed(
            rows.tokens, rows.length, rows.drafted if drafting else None, rows.active, rows.table, core.embedding,
            self._queries, core.pool.page_size, limit=rows.limit if drafting else None,
            own=None if drafting or self._queries == 1 else rows.drafted,
        )  # fmt: skip

    def _importance(self, layer: int) -> Importance:
        recall = self._core.recall if self._recall is None else self._recall
        reference = recall.reference[layer]
        return Importance(recall.fresh[layer], reference, reference)
