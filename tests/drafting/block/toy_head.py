"""A head of another kind, DFlash's in small: a drafter network of its own that reads the target's hidden states.

It keeps the hidden states of the text as its context, puts the bonus token and mask embeddings behind them, and lets
one layer of attention, which sees both sides, fill the block. It is not trained: with `answers` it says what the text
will be instead, right for the first `right` places of a block, so that its blocks are worth something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.drafting.block.contract import Seen
from glimpse.drafting.block.drafter import BlockDrafter
from glimpse.drafting.drafter import DraftContext

SIZE, WIDTH, HEADS, CONTEXT = 6, 16, 2, 32


class ToyHead:
    """One layer of its own over hidden states, its output through the target's frozen head."""

    size = SIZE
    path = None

    def __init__(self, decoder, seed: int = 0) -> None:
        hidden, generator = decoder.spec.hidden_size, torch.Generator().manual_seed(seed)

        def matrix(rows: int, columns: int) -> Tensor:
            return torch.randn(rows, columns, generator=generator) / columns**0.5

        self._decoder = decoder
        self._query, self._key, self._value = (matrix(WIDTH, hidden) for _ in "qkv")
        self._out = matrix(hidden, WIDTH)
        self._masks = matrix(SIZE, hidden)
        self._contexts: dict[int, Tensor] = {}
        self.heard: dict[int, int] = {}

    def propose(self, seen: Sequence[Seen]) -> Tensor:
        return torch.stack([self._block(one) for one in seen])

    def retire(self, slot: int) -> None:
        self._contexts.pop(slot, None)

    def _block(self, one: Seen) -> Tensor:
        before = self._contexts.get(one.slot, one.hidden[:0])
        context = self._contexts[one.slot] = torch.cat([before, one.hidden])[-CONTEXT:]
        self.heard[one.slot] = self.heard.get(one.slot, 0) + len(one.hidden)
        bonus = self._decoder.embedding(torch.tensor([one.bonus]))
        block = self._masks + bonus
        text = torch.cat([context, block])
        query, key, value = (
            F.linear(x, weight).unflatten(-1, (HEADS, -1)).transpose(0, 1)
            for x, weight in ((block, self._query), (text, self._key), (text, self._value))
        )
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(0, 1).flatten(1)
        return self._decoder.logits(block + F.linear(mixed, self._out))


class KnowingHead(ToyHead):
    """Its blocks hold what the texts, by their prompts, will be for `right` tokens, and its own guess behind."""

    def __init__(self, decoder, answers: Mapping[tuple[int, ...], Sequence[int]], right: int = 4) -> None:
        super().__init__(decoder)
        self._answers, self._right = answers, right

    def _block(self, one: Seen) -> Tensor:
        logits = super()._block(one)
        tail = [*one.tokens[-3:].tolist(), one.bonus]
        for prompt, answer in self._answers.items():
            text = [*prompt, *answer]
            for at in range(len(prompt) + 1, len(text)):
                if text[max(0, at - len(tail)) : at] == tail:
                    for place, token in enumerate(text[at : at + self._right]):
                        logits[place, token] += 30.0
        return logits


class ToyDrafter(BlockDrafter):
    """`BlockDrafter` over it, as a plug-in would offer it."""

    name = "toy block"

    @classmethod
    def build(cls, context: DraftContext) -> ToyDrafter:
        assert context.target is not None
        return cls(ToyHead(context.target.decoder), context.target.draw)
