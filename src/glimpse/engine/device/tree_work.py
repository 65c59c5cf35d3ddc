"""The device code of a step that verifies draft trees."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.likely import likeliest
from glimpse.attention.triton.mixed import Want, feed_mixed
from glimpse.attention.triton.picking import Sample
from glimpse.attention.triton.trees import QUERIES, branch, commit_tree, compact
from glimpse.engine.device.core import Core
from glimpse.engine.device.tree_state import TreeState
from glimpse.errors import ArgumentError
from glimpse.sampling.noise import Role


class TreeWork:
    """Steps of the first `size` rows for `tokens` tokens in all: each row's last committed token and its draft nodes.

    Its buffers must outlive graphs captured of it. Coupled acceptance: one pick a node, siblings sharing the noise of
    their position, so the text is that of plain sampling. Gathers no importance: trees come from drafters on the host.
    """

    def __init__(self, core: Core, trees: TreeState, size: int, tokens: int, queries: int) -> None:
        """A row has at most `queries` tokens, its last committed one counted in.

        Raises ArgumentError for more nodes than the rows were made for, or than a mask has bits.
        """
        most = min(core.rows.most + 1, QUERIES)
        if not 1 <= queries <= most:
            raise ArgumentError(f"trees of {queries - 1} nodes; these rows take at most {most - 1}")
        device = core.decoder.device
        self._core, self._trees, self._rows = core, trees, core.rows.first(size)
        self._tokens, self._queries = tokens, queries
        self._want = torch.full((size,), int(Want.ADD), dtype=torch.int32, device=device)
        self._paged = core.paged(size, queries)
        self._sample = Sample(tokens, core.vocab, device, role=Role.TARGET)

    def verify(self) -> None:
        """Verifies each row's tree, commits the accepted path and the target's own token; the cache follows."""
        rows, core, pool, trees = self._rows, self._core, self._core.pool, self._trees
        trees.plant(rows)
        made = feed_mixed(
            rows.tokens, rows.length, rows.drafted, rows.limit, rows.active, self._want, rows.table, core.embedding,
            self._tokens, self._queries, pool.page_size,
        )  # fmt: skip
        fed, ragged, parents = made.fed, made.ragged, trees.parents[: rows.size]
        seen = branch(fed, ragged, parents, self._queries) if self._queries > 1 else None
        self._paged.plan(fed.lengths)

        def mix(layer: int, q: Tensor) -> Tensor:
            keys, values = pool.keys[layer], pool.values[layer]
            return self._paged(
                q, keys, values, rows.table, fed.lengths, counts=fed.counts, ragged=ragged, tree=seen
            )  # fmt: skip

        logits = core.forward.logits(core.forward(fed.embedded, fed.positions, fed.slots, mix))
        picks = self._sample(logits, rows.settings, rows.seeds, fed.positions, ahead=1, owners=ragged.owners)
        if trees.recycles:
            likeliest(self._sample, logits, trees.likely)
        paths = trees.paths[: rows.size]
        commit_tree(
            rows.tokens, fed, ragged, parents, picks.tokens, picks.entropies, rows.length, rows.drafted, rows.active,
            rows.limit, rows.report.verdict, paths, self._queries,
        )  # fmt: skip
        if self._queries > 1:
            compact(pool.keys, pool.values, rows.table, paths, rows.counts, rows.length, pool.page_size)
