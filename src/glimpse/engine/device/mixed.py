"""The device code of a mixed step: some rows draft, others verify, in one forward.

Prompts are not part of it (`reading`): a part of one is hundreds of tokens of one row, which fill the machine by
themselves. Read alone they go through the dense attention of `prefill`, faster at that than a kernel made for few
queries, and need no graph for each number of tokens; what a shared forward would save is one reading of the weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.attention import Importance
from glimpse.attention.triton.mixed import MixedFed, feed_mixed
from glimpse.attention.triton.picking import Picks, Sample
from glimpse.attention.triton.recalled import Recalled
from glimpse.attention.triton.rows import commit, record
from glimpse.engine.device.core import Core
from glimpse.engine.device.forward import Mix
from glimpse.engine.device.relaxed import Relaxing
from glimpse.errors import ArgumentError
from glimpse.sampling.noise import Role


class Mixed:
    """Steps of the first `size` rows in which each does as `Core.want` says, for `tokens` tokens in all.

    Its buffers must outlive graphs captured of it. Rows keep the bits of steps that are not mixed as far as kernels are
    cut up alike; coupled acceptance makes the text independent of all of it.
    """

    def __init__(self, core: Core, size: int, tokens: int, queries: int) -> None:
        """A row verifies at most `queries` tokens, its last committed one counted in.

        Raises ArgumentError for more than the rows were made for, and where the exact statistic is asked for, which
        knows steps of all rows only.
        """
        rows, device, page_size = core.rows.first(size), core.decoder.device, core.pool.page_size
        if queries > rows.most + 1:
            raise ArgumentError(f"a draft of {queries - 1} tokens; these rows were made for at most {rows.most}")
        if core.window is not None:
            raise ArgumentError("the exact statistic is kept by steps of all rows; a mixed step is of some")
        self._core, self._rows, self._tokens, self._queries = core, rows, tokens, queries
        self._recall, self._kept = core.recall.first(size), (core.scored[:size], core.known[:size])
        self._paged = core.paged(size, queries)
        self._recalled = Recalled(core.shape, size, page_size, device)
        self._sample = Sample(tokens, core.vocab, device, role=Role.TARGET)
        self._relaxing = Relaxing(core.relaxes, self._sample, rows.settings) if core.relaxes else None

    def run(self, *, drafts: bool, learns: bool) -> None:
        """One step. `drafts`, `learns`: whether any row wants to draft, or its importance to be learned."""
        made = self._feed()
        self._paged.plan(made.fed.lengths)
        fed, core = made.fed, self._core
        hidden = core.forward(fed.embedded, fed.positions, fed.slots, self._attention(made, drafts, learns))
        logits = core.forward.logits(hidden)
        picks = self._sample(
            logits, self._rows.settings, self._rows.seeds, fed.positions, ahead=1,
            owners=made.ragged.owners,
        )  # fmt: skip
        if drafts:
            self._record(made, picks)
        self._commit(made, picks, self._relaxing(logits, fed, made.ragged) if self._relaxing else None)
        if learns:
            self._choose()

    def _choose(self) -> None:
        self._core.choose_wanted()

    def _feed(self) -> MixedFed:
        rows, core = self._rows, self._core
        return feed_mixed(
            rows.tokens, rows.length, rows.drafted, rows.limit, rows.active, core.want[: rows.size], rows.table,
            core.embedding, self._tokens, self._queries, core.pool.page_size,
        )  # fmt: skip

    def _attention(self, made: MixedFed, drafts: bool, learns: bool) -> Mix:
        """Two views of the pages: all of them, and what is recalled; each launch leaves the other's tokens alone."""
        rows, recall, fed, ragged = self._rows, self._recall, made.fed, made.ragged

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values, out = self._core.pool.keys[layer], self._core.pool.values[layer], torch.empty_like(q)
            reference = recall.reference[layer]
            importance = Importance(recall.fresh[layer], reference, reference) if learns else None
            self._paged(
                q, keys, values, rows.table, fed.lengths, counts=fed.counts, ragged=ragged, importance=importance,
                out=out,
            )  # fmt: skip
            if drafts:
                self._recalled(
                    q, keys, values, recall.slots[layer], recall.count, recall.base, made.recalled, rows.table,
                    ragged=ragged, out=out,
                )  # fmt: skip
            return out

        return mix

    def _record(self, made: MixedFed, picks: Picks) -> None:
        rows = self._rows
        record(
            rows.tokens, made.fed.positions, picks.tokens, picks.probabilities, picks.entropies, rows.drafted,
            made.recalled, rows.confidence, rows.entropy, ragged=made.ragged,
        )  # fmt: skip

    def _commit(self, made: MixedFed, picks: Picks, loose: Tensor | None) -> None:
        rows, core = self._rows, self._core
        core.known.zero_()
        commit(
            rows.tokens, made.fed, picks.tokens, picks.entropies, rows.length, rows.drafted, rows.active, rows.limit,
            rows.report.verdict, ragged=made.ragged, queries=self._queries, out=self._kept,
            loose=loose,
        )  # fmt: skip
