"""The device code of a step that verifies draft trees."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.rows import feed
from glimpse.attention.triton.trees import QUERIES, branch, commit_tree, compact
from glimpse.engine.device.choose import Choose
from glimpse.engine.device.core import Core
from glimpse.errors import ArgumentError


class TreeWork:
    """Steps of the first `size` rows, each with its last committed token and up to `queries` - 1 draft nodes.

    Its buffers must outlive graphs captured of it. Coupled acceptance: one pick a node, siblings sharing the noise of
    their position, so the text is that of plain sampling. Gathers no importance: trees come from drafters on the host.
    """

    def __init__(self, core: Core, size: int, queries: int) -> None:
        """Raises ArgumentError for more nodes than the rows were made for, or than a mask has bits."""
        most = min(core.rows.most + 1, QUERIES)
        if not 2 <= queries <= most:
            raise ArgumentError(f"trees of {queries - 1} nodes; these rows take from 1 to {most - 1}")
        self._core, self._rows, self._queries = core, core.rows.first(size), queries
        device = core.decoder.device
        self.parents = torch.full((size, queries - 1), -1, dtype=torch.int32, device=device)
        """[size, queries - 1]: each node's parent among its row's nodes, parents first; -1: the last committed token.
        The nodes' tokens stand in the rows' `tokens` behind `length`, their number in `drafted`."""
        self.choose = Choose(self._rows, queries, core.vocab)
        self._paged = core.paged(size, queries)

    def verify(self) -> None:
        """Verifies each row's tree, commits the accepted path and the target's own token; the cache follows."""
        rows, core, pool = self._rows, self._core, self._core.pool
        fed = feed(
            rows.tokens, rows.length, None, rows.active, rows.table, core.embedding, self._queries, pool.page_size,
            own=rows.drafted,
        )  # fmt: skip
        seen = branch(fed, self.parents)
        self._paged.plan(fed.lengths)

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values = pool.keys[layer], pool.values[layer]
            return self._paged(q, keys, values, rows.table, fed.lengths, counts=fed.counts, tree=seen)

        hidden = core.forward(fed.embedded, fed.positions, fed.slots, mix)
        picks = self.choose(core.forward.logits(hidden), fed.positions)
        paths = commit_tree(
            rows.tokens, fed, self.parents, picks.tokens, picks.entropies, rows.length, rows.drafted, rows.active,
            rows.limit, rows.report.verdict,
        )  # fmt: skip
        compact(pool.keys, pool.values, rows.table, paths, rows.counts, rows.length, pool.page_size)
