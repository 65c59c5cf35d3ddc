"""A tiny model on a device in synchronous rounds, and what the engine writes for the same prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.batch import DeviceBatch, Limits
from glimpse.engine.device.rounds import RoundSettings
from glimpse.sampling.resolve import resolve

BUDGET = RecallBudget(share=0.1, floor=12, sinks=2, recent=6)
WIDTH, MOST = 112, 2


def made(decoder, vocab, prompts, params, tokens, window=0) -> DeviceBatch:
    """A batch that has read its prompts; `window` as in `RoundSettings`."""
    settings = RoundSettings(BUDGET, window=window)
    batch = DeviceBatch(decoder, vocab, Limits(len(prompts), WIDTH, MOST), settings)
    with torch.inference_mode():
        batch.fill(prompts, [resolve(own) for own in params], tokens)
    return batch


def texts(batch: DeviceBatch, gamma: int, rounds: int) -> Iterator[list[list[int]]]:
    """What the rows have written after each round."""
    with torch.inference_mode():
        for _ in range(rounds):
            if gamma:
                batch.rounds.draft(gamma)
                batch.rounds.verify(gamma)
            else:
                batch.rounds.plain()
            yield batch.written()


def begins(right: Sequence[int], found: Sequence[int]) -> bool:
    """Whether one text is the beginning of the other, and neither is empty."""
    count = min(len(right), len(found))
    return count > 0 and list(right[:count]) == list(found[:count])
