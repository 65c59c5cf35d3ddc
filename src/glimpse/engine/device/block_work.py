"""The device code of a step with mask groups: verifies each row's block, and makes the next one."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.groups import Grouped
from glimpse.attention.triton.picking import Picks, Sample
from glimpse.attention.triton.rows import Fed, commit, feed
from glimpse.engine.device.block_state import BlockState
from glimpse.engine.device.core import Core
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.sampling.noise import Role


class BlockWork:
    """Steps of the first `size` rows with at most `queries` tokens each, and masks behind the first `groups` of them.

    Its buffers must outlive graphs captured of it. Coupled acceptance, and blocks drawn with the target's noise: the
    text is that of plain sampling.
    """

    def __init__(self, core: Core, blocks: BlockState, size: int, queries: int, groups: int) -> None:
        """Raises ArgumentError for more tokens than the rows were made for, or more masks than a row may have."""
        rows, device, head = core.rows.first(size), core.decoder.device, blocks.head
        if queries > rows.most + 1:
            raise ArgumentError(f"a draft of {queries - 1} tokens; these rows were made for at most {rows.most}")
        self._core, self._blocks, self._rows, self._queries, self._groups = core, blocks, rows, queries, groups
        self._paged = core.paged(size, queries)
        self._grouped = Grouped(core.shape, size, groups, head.size, core.pool.page_size, device)
        self._sample = Sample(size * queries, core.vocab, device, role=Role.TARGET)
        self._draws = Sample(size * head.size, core.vocab, device, role=Role.TARGET)
        each = torch.arange(size, dtype=torch.int32, device=device)
        self._owners, self._drawers = each.repeat_interleave(queries), each.repeat_interleave(head.size)
        self._each, self._places = each.long(), torch.arange(head.size, device=device)
        behind = torch.arange(groups, device=device)
        # A group goes on counting from the token that it stands behind.
        self._offsets = (behind[:, None] + 1 + self._places).flatten()

    def verify(self) -> None:
        """Verifies what each row has drafted, commits, and leaves the block behind the last token kept."""
        rows, core, fed = self._rows, self._core, self._feed()
        if fed.counts is None:
            raise GlimpseError("a step with mask groups counts each row's tokens")
        self._paged.plan(fed.lengths)
        self._grouped.plan(fed.lengths, fed.counts)
        text, masks = self._forward(fed)
        picks = self._sample(
            core.forward.logits(text), rows.settings, rows.seeds, fed.positions, ahead=1, owners=self._owners
        )  # fmt: skip
        commit(
            rows.tokens, fed, picks.tokens, picks.entropies, rows.length, rows.drafted, rows.active, rows.limit,
            rows.report.verdict,
        )  # fmt: skip
        self._draft(masks)

    def _feed(self) -> Fed:
        rows, core = self._rows, self._core
        return feed(
            rows.tokens, rows.length, None, rows.active, rows.table, core.embedding, self._queries,
            core.pool.page_size, own=rows.drafted,
        )  # fmt: skip

    def _forward(self, fed: Fed) -> tuple[Tensor, Tensor]:
        core, table = self._core, self._rows.table

        def mix(layer: int, q: Tensor, out: Tensor) -> Tensor:
            keys, values = core.pool.keys[layer], core.pool.values[layer]
            return self._paged(q, keys, values, table, fed.lengths, counts=fed.counts, out=out)

        def late_mix(layer: int, q: Tensor, own_keys: Tensor, own_values: Tensor, out: Tensor) -> Tensor:
            keys, values = core.pool.keys[layer], core.pool.values[layer]
            return self._grouped(q, own_keys, own_values, keys, values, table, out)

        places = (self._rows.length.long() - 1).clamp_min(0)[:, None] + self._offsets
        return self._blocks.forward(fed.embedded, fed.positions, fed.slots, mix, places.flatten(), late_mix)

    def _draft(self, masks: Tensor) -> None:
        """The tokens of each row's group behind the last token kept, once the target's own token is known.

        Of a row that has no such group the block means nothing; the host knows which groups rode.
        """
        rows, core, head = self._rows, self._core, self._blocks.head
        kept = (rows.counts.long() - 1).clamp(0, self._groups - 1)
        own = masks.view(rows.size, self._groups, head.size, -1)[self._each, kept]
        bonus = rows.tokens.gather(1, (rows.length.long() - 1).clamp_min(0)[:, None]).squeeze(1)
        logits = core.forward.logits(head.calibrate(own, bonus).flatten(0, 1))
        positions = (rows.length.long()[:, None] + self._places).flatten()
        picks = self._draws(logits, rows.settings, rows.seeds, positions, owners=self._drawers)
        chances = self._chances(logits, picks)
        made = picks.tokens.view(rows.size, -1), chances.view(rows.size, -1)
        if self._blocks.ahead:
            self._blocks.plant(rows, *made, (rows.counts > 0) & (rows.counts <= self._groups))
        else:
            self._blocks.keep(*made)

    def _chances(self, logits: Tensor, picks: Picks) -> Tensor:
        """Each token's probability under its law; of a law that is sure whatever the head thinks, under the head's."""
        summary = self._draws.summary
        total = torch.logsumexp(summary[..., 0] + summary[..., 1].log(), 1)
        said = logits.gather(1, picks.tokens[:, None]).squeeze(1).float()
        sure = (self._rows.settings.top_k == 1)[self._drawers.long()]
        return torch.where(sure, (said - total).exp(), picks.probabilities)
