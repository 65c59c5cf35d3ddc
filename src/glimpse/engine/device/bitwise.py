"""Prompts in the bitwise mode: read by the kernels that decode, a few queries of one row at a time.

A token's keys, values and logits then come to the same bits whether it is read with a prompt, decoded alone or verified
with others, in any batch: linears take the inner dimension in one order (`NarrowConfig.bitwise`, `product`), attention
cuts positions at the same places (`PagedConfig.bitwise`), and all else is computed token by token. So drafts, batches,
preemption and shared prompts change nothing, where in the other mode near ties may fall otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.attention.triton.attention import Paged, PagedConfig
from glimpse.cache.sequence import Sequence
from glimpse.engine.device.core import Core
from glimpse.engine.device.mail import upload
from glimpse.engine.device.prefill import LastQueries, Scores

LEAST, MOST = 256, 1024
"""Prompt tokens in one forward, at most: parts this short are mostly the host's launches, of which each has as many."""
PIECES = 4096
"""Pieces of attention that a part may have, before it is cut down to `LEAST` tokens: one program lists them all."""


def part_of(width: int, queries: int, piece: int) -> int:
    """Prompt tokens in one forward, at most, of rows of `queries` tokens in a context of `width`."""
    rows = PIECES // -(-width // piece)
    return min(max(rows * queries, LEAST), MOST)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A part of a prompt as rows of a few queries each, all with the prompt's pages."""

    lengths: Tensor
    """[rows] int32: positions up to each row's last token, that counted in; 0: there is no such row."""
    counts: Tensor
    """[rows] int32: tokens of each row."""
    table: Tensor
    """[rows, pages] int32."""


class BitwiseReader:
    """Reads parts of prompts into the pool."""

    def __init__(self, core: Core) -> None:
        config = PagedConfig.bitwise(core.width, core.decoder.device)
        self._core, self._queries = core, max(1, config.tile // core.shape.group)
        self.most = part_of(core.width, self._queries, config.piece)
        """Prompt tokens in one forward, at most."""
        self._paged: Paged | None = None

    def read(self, sequence: Sequence, tokens: Tensor, start: int, scores: Scores | None = None) -> None:
        """Reads `tokens` [n] int64, at most `most`, into the positions of `sequence` from `start` on.

        Leaves the importance that the last tokens give to all positions in `scores`.
        """
        core, stop = self._core, start + len(tokens)
        positions = torch.arange(start, stop, device=tokens.device)
        held = torch.cat([torch.arange(first, first + count) for first, count in sequence.extents(0, stop)])
        slots = upload(held, tokens.device)
        rows, paged, last = self._rows(sequence, len(tokens), start), self._attention(), LastQueries(scores)
        paged.plan(rows.lengths)

        def mix(layer: int, q: Tensor) -> Tensor:
            last.keep(q)
            keys, values = core.pool.keys[layer], core.pool.values[layer]
            return paged(q, keys, values, rows.table, rows.lengths, counts=rows.counts)

        core.forward(core.forward.embed(tokens), positions, slots[start:], mix)
        last.weigh(core.pool, lambda keys: keys.index_select(-2, slots), stop)

    def _attention(self) -> Paged:
        """Made when first needed, and for the largest part: buffers of 512 positions a piece are no small thing."""
        if self._paged is None:
            self._paged = self._core.paged(-(-self.most // self._queries), self._queries)
        return self._paged

    def _rows(self, sequence: Sequence, count: int, start: int) -> _Rows:
        device, queries = self._core.decoder.device, self._queries
        begins = torch.arange(-(-self.most // queries)) * queries
        counts = (count - begins).clamp(0, queries)
        lengths = torch.where(counts > 0, start + begins + counts, 0)
        pages = upload(torch.tensor(sequence.pages, dtype=torch.int32), device)
        sent = upload(torch.stack((lengths, counts)).to(torch.int32), device)
        return _Rows(sent[0], sent[1], pages.expand(len(begins), -1))
