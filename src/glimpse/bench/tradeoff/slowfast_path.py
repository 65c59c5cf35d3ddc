"""Slow-Fast Inference along the exact path: what fast steps say where the target says what it says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
from torch import Tensor

from glimpse.bench.held import Held, forward_together, held
from glimpse.bench.tradeoff.path import CHUNK, Law, Laws
from glimpse.cache.recall import RecallBudget, RecallSet
from glimpse.cache.selector import Selector
from glimpse.drafting.sparse import WINDOW
from glimpse.llm import LLM
from glimpse.pacing.boundary import BoundaryPacer
from glimpse.pacing.sentence_ends import sentence_ends


@dataclass(frozen=True, slots=True)
class Reader:
    """What fast steps read."""

    budget: RecallBudget
    selector: Selector = field(default_factory=Selector)


def slowfast_laws(
    llm: LLM, prompt: Sequence[int], output: Sequence[int], law: Law, budget: RecallBudget,
    most: int = BoundaryPacer.MOST,
) -> Laws:  # fmt: skip
    """Fast and slow steps along the text; what fast steps wrote into the cache stays, as in the engine."""
    (laws,) = slowfast_sweep(llm, prompt, output, law, [Reader(budget)], most)
    return laws


def slowfast_sweep(
    llm: LLM, prompt: Sequence[int], output: Sequence[int], law: Law, readers: Sequence[Reader],
    most: int = BoundaryPacer.MOST, *, shares: bool = False,
) -> list[Laws]:  # fmt: skip
    """`slowfast_laws` of several readers side by side, each over keys and values of its own.

    All come to their slow steps together, as these depend on the text alone. `shares`: the prompt's pages are taken
    over from a request that has read it (and nothing longer), and shared.
    """
    text, first = [*prompt, *output], len(prompt)
    ends = sentence_ends(llm.tokenizer)
    with ExitStack() as stack:
        kept = [stack.enter_context(held(llm, text, shares=shares)) for _ in readers]
        targets = torch.cat([
            law(kept[0].forward(start, min(CHUNK, len(text) - 1 - start)).logits[0])
            for start in range(first - 1, len(text) - 1, CHUNK)
        ])  # fmt: skip
        weights = kept[0].forward(first - WINDOW, WINDOW, importance=WINDOW).importance[0]
        recalled = [_chosen(own, weights, reader) for own, reader in zip(kept, readers, strict=True)]
        spoken, slow, begun = [[targets[:1]] for _ in readers], [True], first
        for place in range(first, len(text) - 1):
            due = place + 1 - begun > most or text[place] in ends
            found = forward_together(kept, place, [None] * len(kept) if due else recalled, importance=int(due))
            if due:
                recalled = [_chosen(*own) for own in zip(kept, found.importance, readers, strict=True)]
                begun = place + 1
            for said, logits in zip(spoken, found.logits, strict=True):
                said.append(law(logits))
            slow.append(due)
    return [Laws(targets, torch.cat(said), tuple(slow)) for said in spoken]


def _chosen(kept: Held, weights: Tensor | None, reader: Reader) -> RecallSet:
    assert weights is not None
    length, selector = weights.shape[-1], reader.selector
    norms = kept.key_norms(length) if selector.key_norm else None
    return kept.recall(selector.select(weights, norms, reader.budget), length)
