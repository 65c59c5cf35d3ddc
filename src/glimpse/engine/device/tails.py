"""Short ends of prompts, of many rows in one forward: what is left to read of prompts that are in the cache.

Read one by one, as `prefill` reads long parts, each costs the host all launches of a forward and of the weights of its
last queries, some 28 a layer, however few tokens there are. Here rows of a few queries each go through the kernels that
verify, as a graph; a verification it is, but for the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from glimpse.attention.triton.attention import Importance
from glimpse.attention.triton.mixed import MixedFed, Want, feed_mixed
from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.sizes import parted
from glimpse.cache.prefix import TAIL
from glimpse.engine.device.core import Core
from glimpse.engine.device.covering import Shape
from glimpse.engine.device.forward import Mix
from glimpse.engine.device.graphs import Graphs, Step
from glimpse.engine.device.mail import upload
from glimpse.engine.device.prefill import QUERIES
from glimpse.engine.memory import PAGE_SIZE

LONGEST = TAIL + PAGE_SIZE
"""Tokens of a row, at most: the tail of a prompt whose whole pages are shared has fewer."""
SIZES = (32, 128, 512, 1024)
"""Tokens that forwards are made for; the rest is padding. Each is a graph, and compiles a kernel, when first needed."""
MOST = SIZES[-1]


def bucket(tokens: int) -> int:
    """The number of tokens that a forward of `tokens`, at most `MOST`, is made for."""
    return next(size for size in SIZES if size >= tokens)


class TailReader:
    """Reads the last tokens of texts into the pool, over what stands before."""

    def __init__(self, core: Core, graphs: Graphs) -> None:
        """Its buffers must outlive the graphs that are captured of it."""
        rows, device = core.rows, core.decoder.device
        self._core, self._graphs = core, graphs
        self._wants = torch.full((rows.size,), int(Want.ADD), dtype=torch.int32, device=device)
        self._reads, self._length, self._more = parted(3, rows.size, torch.int32, device, torch.zeros)
        self._paged = core.paged(rows.size, LONGEST)
        self._last = core.paged(rows.size, QUERIES) if core.drafts else None
        self._hidden = torch.empty(MOST, core.decoder.spec.hidden_size, dtype=core.decoder.dtype, device=device)

    def read(self, first: int, starts: Sequence[int], counts: Sequence[int]) -> Tensor:
        """Reads `counts` tokens of the rows from `first` on, each from its position in `starts` on; what the rows hold
        they have, and they are idle. At most `LONGEST` of a row, `MOST` in all.

        Where rows draft, leaves the importance that each row's last `QUERIES` tokens give all positions before them: by
        the statistic of later rounds (`Importance`), once each head's log-sum-exp is known. Returns the hidden states
        [sum of counts, hidden] after the final norm, row after row, until it reads again.
        """
        own, tokens = slice(first, first + len(counts)), sum(counts)
        given = torch.zeros(3, len(self._reads), dtype=torch.int32)
        given[0, own], given[1, own], given[2, own] = 1, torch.tensor(starts) + 1, torch.tensor(counts) - 1
        sent = upload(given, self._reads.device)
        for held, new in zip((self._reads, self._length, self._more), sent, strict=True):
            held.copy_(new)
        size = (bucket(tokens),)
        self._graphs.run(*self._step(self._graphs.covering.choose("tails", size, size)))
        return self._hidden[:tokens]

    def ready(self) -> Iterator[Step]:
        """The forwards of all sizes, the largest first; to be captured only."""
        for size in reversed(SIZES):
            self._reads.zero_()  # what was read last must not be read again: its pages may be another's
            yield self._step((size,))

    def _step(self, shape: Shape) -> Step:
        return ("tails", shape), partial(self._run, shape[0])

    def _run(self, tokens: int) -> None:
        """Device code; may be run over and over for the same rows."""
        rows, core = self._core.rows, self._core
        made = feed_mixed(
            rows.tokens, self._length, self._more, rows.limit, self._reads, self._wants, rows.table, core.embedding,
            tokens, LONGEST, core.pool.page_size,
        )  # fmt: skip
        fed = made.fed
        self._paged.plan(fed.lengths)
        self._hidden[:tokens] = core.forward(fed.embedded, fed.positions, fed.slots, self._attention(made))

    def _attention(self, made: MixedFed) -> Mix:
        pool, fed, table, last = self._core.pool, made.fed, self._core.rows.table, self._last
        if last is None or fed.counts is None:
            return lambda layer, q: self._paged(
                q, pool.keys[layer], pool.values[layer], table, fed.lengths, counts=fed.counts, ragged=made.ragged
            )
        recall, counts = self._core.recall, fed.counts.clamp_max(QUERIES)
        behind = Ragged(made.ragged.firsts + fed.counts - counts, made.ragged.owners)
        last.plan(fed.lengths)

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values, reference = pool.keys[layer], pool.values[layer], recall.reference[layer]
            importance = Importance(recall.fresh[layer], reference, reference)
            # What the rows that were here before left as reference is of no use: its sums are written over.
            out = self._paged(
                q, keys, values, table, fed.lengths, counts=fed.counts, ragged=made.ragged, importance=importance
            )  # fmt: skip
            last.pieces(q, keys, values, table, fed.lengths, counts=counts, ragged=behind, importance=importance)
            return out

        return mix
