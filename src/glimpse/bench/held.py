"""A text held in the cache, for single forwards outside the engine's loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from glimpse.attention import RowSpec
from glimpse.cache.recall import ImportanceWindow, RecallBudget, RecallSet, recall, select
from glimpse.cache.sequence import Sequence as CachedSequence
from glimpse.engine.forward import ForwardResult, forward
from glimpse.engine.parts import Parts
from glimpse.llm import LLM

CHUNK = 512
WINDOW = 16


def parts_of(llm: LLM) -> Parts:
    """What an LLM's engine is made of."""
    return llm._engine.parts


class Held:
    """A text whose keys and values are all in the cache; its last tokens can be fed again, in any number."""

    def __init__(self, parts: Parts, ids: Sequence[int], *, shares: bool = True) -> None:
        """`shares`: pages that others have read are taken over; their positions cannot be fed again."""
        self.parts, self.length = parts, len(ids)
        self._slot = parts.rows.free_slots()[0]
        shared = parts.prefixes.find(list(ids)) if shares else None
        self._sequence = CachedSequence(parts.pool, expected=len(ids), shared=shared)
        parts.rows.open(self._slot, list(ids), self._sequence, len(ids))
        self._sequence.reserve(len(ids))
        for start in range(self._sequence.shared_len, len(ids), CHUNK):
            self.forward(start, min(CHUNK, len(ids) - start), outputs=0)

    def close(self) -> None:
        """Gives row and pages back."""
        self.parts.rows.close(self._slot)

    def forward(
        self,
        start: int,
        count: int,
        *,
        outputs: int | None = None,
        importance: int = 0,
        recalled: RecallSet | None = None,
    ) -> ForwardResult:
        """Feeds tokens `start` up to `start + count`; logits of the last `outputs` of them (all, if not said)."""
        wanted = count if outputs is None else outputs
        spec = RowSpec(self._slot, self._sequence, start, count, recalled, outputs=wanted, importance=importance)
        with torch.inference_mode():
            return forward(self.parts.decoder, self.parts.pool, self.parts.rows, [spec])

    def last(self, count: int, *, importance: int = 0) -> ForwardResult:
        """Feeds the last `count` tokens, as a verification of `count - 1` draft tokens would."""
        return self.forward(self.length - count, count, importance=importance)

    def window(self) -> ImportanceWindow:
        """An importance window of the cache's shape, empty."""
        shape = self.parts.pool.shape
        return ImportanceWindow(shape.layers, shape.kv_heads, WINDOW, self.parts.pool.device)

    def recalled(self, base: int, budget: RecallBudget, window: ImportanceWindow) -> RecallSet:
        """The set that a draft from `base` on reads, chosen from the window."""
        with torch.inference_mode():
            return self.recall(select(window.scores(base), budget), base)

    @torch.inference_mode()
    def recall(self, positions: Tensor, base: int) -> RecallSet:
        """The set of `positions` [layers, kv_heads, B] of the first `base` ones."""
        return recall(self.parts.pool, self._sequence, positions, base)

    @torch.inference_mode()
    def key_norms(self, length: int) -> Tensor:
        """[layers, kv_heads, length]: the norms of the keys."""
        slots = self._sequence.slots_of(torch.arange(length, device=self.parts.pool.device))
        norms: Tensor = torch.linalg.vector_norm(self.parts.pool.keys[:, :, slots].float(), dim=-1)
        return norms


def forward_together(
    texts: Sequence[Held], start: int, recalled: Sequence[RecallSet | None], *, importance: int = 0
) -> ForwardResult:
    """One forward of token `start` of each of several texts over the same model, each with its own set."""
    parts = texts[0].parts
    specs = [
        RowSpec(text._slot, text._sequence, start, 1, own, outputs=1, importance=importance)
        for text, own in zip(texts, recalled, strict=True)
    ]
    with torch.inference_mode():
        return forward(parts.decoder, parts.pool, parts.rows, specs)


@contextmanager
def held(llm: LLM, ids: Sequence[int], *, shares: bool = True) -> Iterator[Held]:
    """`Held` while the block runs."""
    text = Held(parts_of(llm), ids, shares=shares)
    try:
        yield text
    finally:
        text.close()
