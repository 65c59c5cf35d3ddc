"""Along the exact path: at every position of a text that plain decoding wrote, the target's law and the draft's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.bench.held import Held, held, parts_of
from glimpse.cache.recall import RecallBudget, RecallSet
from glimpse.cache.selector import Selector
from glimpse.drafting.sparse import WINDOW
from glimpse.llm import LLM
from glimpse.pacing.boundary import BoundaryPacer
from glimpse.pacing.sentence_ends import sentence_ends
from glimpse.sampling import Nodes, ResolvedParams, Sampler

_CHUNK = 32


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


def slowfast_laws(
    llm: LLM, prompt: Sequence[int], output: Sequence[int], law: Law, budget: RecallBudget,
    most: int = BoundaryPacer.MOST, selector: Selector | None = None,
) -> Laws:  # fmt: skip
    """Fast and slow steps along the text; what fast steps wrote into the cache stays, as in the engine."""
    text, first = [*prompt, *output], len(prompt)
    ends, chooses = sentence_ends(llm.tokenizer), selector or Selector()
    with held(llm, text, shares=False) as kept:
        targets = [
            law(kept.forward(start, min(_CHUNK, len(text) - 1 - start)).logits[0])
            for start in range(first - 1, len(text) - 1, _CHUNK)
        ]
        weights = kept.forward(first - WINDOW, WINDOW, importance=WINDOW).importance[0]
        spoken, slow, begun = [targets[0][:1]], [True], first
        recalled = _chosen(kept, weights, chooses, budget)
        for place in range(first, len(text) - 1):
            due = place + 1 - begun > most or text[place] in ends
            if due:
                found = kept.forward(place, 1, importance=1)
                recalled, begun = _chosen(kept, found.importance[0], chooses, budget), place + 1
            else:
                found = kept.forward(place, 1, recalled=recalled)
            spoken.append(law(found.logits[0]))
            slow.append(due)
    return Laws(torch.cat(targets), torch.cat(spoken), tuple(slow))


def _chosen(kept: Held, weights: Tensor | None, selector: Selector, budget: RecallBudget) -> RecallSet:
    assert weights is not None
    length = weights.shape[-1]
    norms = kept.key_norms(length) if selector.key_norm else None
    return kept.recall(selector.select(weights, norms, budget), length)


def perplexity(llm: LLM, prompt: Sequence[int], output: Sequence[int]) -> float:
    """Of an output under the target, as it is: temperature 1, nothing cut."""
    text, total = [*prompt, *output], 0.0
    with held(llm, text, shares=False) as kept:
        for start in range(len(prompt) - 1, len(text) - 1, _CHUNK):
            count = min(_CHUNK, len(text) - 1 - start)
            logp = torch.log_softmax(kept.forward(start, count).logits[0].float(), 1)
            follows = torch.tensor(text[start + 1 : start + 1 + count])
            total -= float(logp.gather(1, follows[:, None]).sum())
    return float(torch.tensor(total / len(output)).exp())
