"""The device code of a step with mask groups: verifies each row's block, and makes the next one."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.blocks import behind
from glimpse.attention.triton.groups import Grouped
from glimpse.attention.triton.picking import Sample
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

    def verify(self) -> None:
        """Verifies what each row has drafted, commits, and leaves the block behind the last token kept."""
        rows, core, fed = self._rows, self._core, self._feed()
        if fed.counts is None:
            raise GlimpseError("a step with mask groups counts each row's tokens")
        self._paged.plan(fed.lengths)
        self._grouped.plan(fed.lengths, fed.counts, rows.length)
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

        return self._blocks.forward(
            fed.embedded, fed.positions, fed.slots, mix, self._grouped.positions, late_mix
        )  # fmt: skip

    def _draft(self, masks: Tensor) -> None:
        """The tokens of each row's group behind the last token kept, once the target's own token is known."""
        rows, core, blocks = self._rows, self._core, self._blocks
        made = behind(masks, rows.counts, rows.length, rows.tokens, self._groups, blocks.head.size)
        logits = core.forward.logits(blocks.head.calibrate(made.masks, made.bonus).flatten(0, 1))
        self._draws(logits, rows.settings, rows.seeds, made.positions, owners=self._drawers)
        blocks.leave(self._draws, logits, rows, self._groups)
