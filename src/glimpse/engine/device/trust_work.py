"""The device code of Slow-Fast Inference's steps (lossy): one token of every row, output as it is drawn.

Each step decides row by row, by the newest token's id, who reads everything and who reads its set; so rows are in
phases of their own, every step is the same graph, and the host need not know which it was until it reads the report.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.attention import Importance
from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.rows import Fed, commit
from glimpse.attention.triton.sizes import parted
from glimpse.attention.triton.trusting import pace, passed
from glimpse.attention.triton.weights import weigh_rows
from glimpse.engine.device.core import Core
from glimpse.engine.device.forward import Mix
from glimpse.engine.device.settings import Learn
from glimpse.engine.device.work import Work
from glimpse.errors import ArgumentError, GlimpseError


class TrustWork(Work):
    """Steps of the first `size` rows, of one token each."""

    def __init__(self, core: Core, size: int, queries: int) -> None:
        """Raises ArgumentError for more than one token a row, GlimpseError where the rows keep no `TrustState`."""
        super().__init__(core, size, queries)
        if core.trust is None or self._recall is None or self._recalled is None:
            raise GlimpseError("these rows verify what they draft; build them with a TrustState to trust it")
        if queries != 1:
            raise ArgumentError(f"{queries} tokens a row; a step that trusts has one of each")
        self._trust, self._sets, self._reads = core.trust, self._recall, self._recalled
        device = core.decoder.device
        self._alone = Ragged(*(torch.arange(size, dtype=torch.int32, device=device) for _ in range(2)))

    def verify(self, learn: Learn) -> None:
        """One step; which rows learn, their tokens say."""
        rows, core, trust, fed = self._rows, self._core, self._trust, self._feed()
        size, queries = rows.size, list[Tensor]()
        since, learned = trust.since[:size], trust.learned[:size]
        fast, full, recalled = parted(3, size, torch.int32, fed.lengths.device)
        pace(fed.ids, fed.lengths, rows.limit, since, trust.ends, trust.most, (fast, full, recalled, learned))
        self._paged.plan(full)
        mix = self._attention(full, recalled, queries)
        picks = self.choose(
            core.forward.logits(core.forward(fed.embedded, fed.positions, fed.slots, mix)), fed.positions
        )
        self._commit(fed, picks.tokens, picks.entropies)
        report = rows.report.verdict
        passed(fed.lengths, fast, report.broken, since, learned, self._sets.base, report.judged, trust.most)
        weigh_rows(
            core.shape, core.pool.page_size, torch.stack(queries), core.pool.keys, rows.table, learned,
            self._sets.reference, self._sets.fresh,
        )  # fmt: skip
        trust.choose(size)

    def _attention(self, full: Tensor, recalled: Tensor, queries: list[Tensor]) -> Mix:
        """Two views of the pages, as in a mixed step; keeps the queries, which are weighed when all is done."""
        rows, sets, counts = self._rows, self._sets, (full > 0).to(torch.int32)

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values, out = self._core.pool.keys[layer], self._core.pool.values[layer], torch.empty_like(q)
            reference = sets.reference[layer]
            self._paged(
                q, keys, values, rows.table, full, counts=counts, ragged=self._alone,
                importance=Importance(sets.fresh[layer], reference, reference), out=out,
            )  # fmt: skip
            self._reads(
                q, keys, values, sets.slots[layer], sets.count, sets.base, recalled, rows.table, ragged=self._alone,
                out=out,
            )  # fmt: skip
            queries.append(q)
            return out

        return mix

    def _commit(self, fed: Fed, picks: Tensor, entropies: Tensor) -> None:
        rows = self._rows
        commit(
            rows.tokens, fed, picks, entropies, rows.length, rows.drafted, rows.active, rows.limit,
            rows.report.verdict, out=self._kept,
        )  # fmt: skip
