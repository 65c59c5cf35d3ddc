"""The successors of a prompt's tokens, for drafters that recycle them: the head runs at every position that is read.

That is not free: a head of 49,152 ids is as large as one of 32 layers of an 8B model, but as a quarter of all layers of
the demo model. Only where the drafter `wants_prompt_topk`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from glimpse.drafting.drafter import PromptReader, Successors
from glimpse.engine.parts import Parts
from glimpse.engine.successors import likeliest
from glimpse.model import Decoder

PIECE = 256
"""Positions whose logits are there at once."""


class PromptTopK:
    """Tells the drafter of what was read of prompts."""

    def __init__(self, parts: Parts) -> None:
        self._decoder, self._vocab = parts.decoder, parts.sampler.vocab
        self._drafter = cast(PromptReader, parts.drafter)

    def tell(self, slots: Sequence[int], texts: Sequence[Tensor], hidden: Tensor) -> None:
        """Of each row's prompt its tokens in `texts`, [n] int64 on the host, were read, with `hidden` [all, hidden]
        after the final norm, row after row.

        Waits for the device, which has nothing else to do: the rows' first drafts are to be made of them.
        """
        ids, chances = (found.cpu() for found in prompt_successors(self._decoder, self._vocab, hidden))
        end = 0
        for slot, text in zip(slots, texts, strict=True):
            begin, end = end, end + len(text)
            self._drafter.recycle(slot, Successors(text.clone(), ids[begin:end], chances[begin:end]))


def prompt_successors(decoder: Decoder, vocab: int, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Ids [n, 8] int64 and probabilities [n, 8] float32 after positions of `hidden` [n, hidden]; ids are below `vocab`.

    As `glimpse.engine.successors.likeliest`.
    """
    pieces = [likeliest(decoder.head(piece)[:, :vocab].float()) for piece in torch.split(hidden, PIECE)]
    ids, chances = zip(*pieces, strict=True)
    return torch.cat(ids), torch.cat(chances)


def prompt_topk(parts: Parts) -> PromptTopK | None:
    """For a drafter that wants it."""
    return PromptTopK(parts) if parts.drafter.wants_prompt_topk else None
