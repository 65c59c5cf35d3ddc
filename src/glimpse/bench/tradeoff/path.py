"""Along the exact path: at every position of a text that plain decoding wrote, the target's law and the draft's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.bench.held import held, parts_of
from glimpse.cache.recall import RecallBudget
from glimpse.drafting.sparse import WINDOW
from glimpse.llm import LLM
from glimpse.sampling import Nodes, ResolvedParams, Sampler

CHUNK = 32
"""Laws that are worked out together: 49,000 numbers each."""


@dataclass(frozen=True, slots=True)
class Laws:
    """Of T positions."""

    target: Tensor
    """[T, V]"""
    draft: Tensor
    """[T, V]"""
    slow: tuple[bool, ...] = ()
    """Where the target itself spoke; () where it never did."""


Law = Callable[[Tensor], Tensor]
"""Logits [n, V] to probabilities [n, V], by a request's settings."""


def law_of(llm: LLM, params: ResolvedParams) -> Law:
    """By settings that look at no history (temperature and truncation)."""

    def law(logits: Tensor) -> Tensor:
        sampler = Sampler(1, logits.shape[1], tokens=parts_of(llm).sampler.vocab)
        sampler.admit(0, params, [0], ())
        rows = len(logits)
        return sampler.laws(logits, Nodes.plain([0] * rows, [1] * rows, [0] * rows)).probs()

    return law


def sparse_laws(
    llm: LLM, prompt: Sequence[int], output: Sequence[int], law: Law, drafts: int, budget: RecallBudget
) -> Laws:
    """Rounds of `drafts` tokens that were all right: what each draft step had said."""
    text, first = [*prompt, *output], len(prompt)
    targets, proposals = [], []
    with held(llm, text, shares=False) as kept:
        for begin in range(first, len(text) - drafts + 1, drafts):
            tail = kept.forward(begin - WINDOW - 1, WINDOW, importance=WINDOW).importance[0]
            assert tail is not None
            window = kept.window()
            window.push(tail)
            recalled = kept.recalled(begin - 1, budget, window)
            steps = [kept.forward(begin - 1 + step, 1, recalled=recalled).logits[0] for step in range(drafts)]
            proposals.append(law(torch.cat(steps)))
            # Full attention again, over what drafting wrote.
            targets.append(law(kept.forward(begin - 1, drafts).logits[0]))
    return Laws(torch.cat(targets), torch.cat(proposals))


def perplexity(llm: LLM, prompt: Sequence[int], output: Sequence[int]) -> float:
    """Of an output under the target, as it is: temperature 1, nothing cut."""
    text, total = [*prompt, *output], 0.0
    with held(llm, text, shares=False) as kept:
        for start in range(len(prompt) - 1, len(text) - 1, CHUNK):
            count = min(CHUNK, len(text) - 1 - start)
            logp = torch.log_softmax(kept.forward(start, count).logits[0].float(), 1)
            follows = torch.tensor(text[start + 1 : start + 1 + count])
            total -= float(logp.gather(1, follows[:, None]).sum())
    return float(torch.tensor(total / len(output)).exp())
