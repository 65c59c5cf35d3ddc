"""Steps over a given text on a device, with their logits."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from glimpse.attention.triton.attention import HeadShape, Paged
from glimpse.attention.triton.rows import feed
from glimpse.engine.device.batch import DeviceBatch
from glimpse.engine.device.choose import Choose
from glimpse.engine.device.rounds import dense_embedding


@dataclass(frozen=True, slots=True)
class ForcedBatch:
    """`bench.decode.ties.Forced` over a device batch: eager steps, nothing committed."""

    batch: DeviceBatch
    vocab: int
    """Ids below it may be picked."""

    @property
    def seeds(self) -> Tensor:
        """See `Forced.seeds`."""
        return self.batch.rows.seeds

    def text(self, tokens: int) -> tuple[Tensor, Tensor]:
        """See `Forced.text`."""
        self.batch.rewind()
        begin = self.batch.rows.length.clone()
        for _ in range(tokens):
            self.batch.rounds.plain()
        text = self.batch.rows.tokens.clone()
        self.batch.rewind()
        return text, begin

    def step(self, queries: int, text: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """See `Forced.step`."""
        batch, vocab = self.batch, self.vocab
        rows, rounds, spec, pool = batch.rows, batch.rounds, batch.decoder.spec, batch.pool
        rows.tokens.copy_(text)
        rows.length.copy_(start)
        rows.active.fill_(1)
        paged = Paged(
            HeadShape(spec.heads, spec.kv_heads, spec.head_dim), rows.size, queries, pool.page_size, text.device
        )
        fed = feed(
            rows.tokens,
            rows.length,
            None,
            rows.active,
            rows.table,
            dense_embedding(batch.decoder),
            queries,
            pool.page_size,
        )
        paged.plan(fed.lengths)

        def mix(layer: int, q: Tensor) -> Tensor:
            return paged(q, pool.keys[layer], pool.values[layer], rows.table, fed.lengths, importance=None)

        hidden = rounds.forward(fed.embedded, fed.positions, fed.slots, mix)
        logits = batch.decoder.head(hidden)
        picks = Choose(rows, queries, vocab)(logits, fed.positions).tokens
        shape = (rows.size, queries, -1)
        return logits.view(*shape)[..., :vocab].float(), picks.view(shape[:2]).clone()
