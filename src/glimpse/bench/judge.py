"""Is a differing token a near tie? Judged by teacher forcing: the plain path's own logits after the plain text.

A pick is argmax of log p + noise over the tokens that truncation keeps. Rounding can change it in two ways only: the
two tokens' sums are nearly equal, or a token is so near a truncation boundary that it is kept on one path and not on
the other. The margin is the smallest change of logits (in units of logits over temperature) with which either happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from glimpse.bench.held import held, parts_of
from glimpse.llm import LLM
from glimpse.sampling import Laws, Nodes, ResolvedParams, Role, Sampler, SamplingParams
from glimpse.sampling.noise import gumbel

SLACK = 4.0
"""Two tokens' logits may both be off; the temperature (0.8) and the penalties (1.1) stretch that; the rest is room."""


def rounding_limit(llm: LLM, ids: Sequence[int], width: int = 17) -> float:
    """The largest logit difference between one-token forwards and one forward of `width` tokens, times SLACK."""
    with held(llm, ids) as text:
        width = min(width, len(ids))
        begin = len(ids) - width
        singles = torch.cat([text.forward(begin + index, 1).logits[0] for index in range(width)])
        together = text.last(width).logits[0]
    return SLACK * float((singles - together).abs().max())


def margin(
    llm: LLM, prompt: Sequence[int], plain: Sequence[int], position: int, other: int, params: SamplingParams
) -> float:
    """How far the plain path was, at `position` of its output `plain`, from picking `other` instead."""
    before = list(plain[:position])
    with held(llm, [*prompt, *before]) as text:
        logits = text.last(1).logits[0]
    resolved = params.resolve(llm._loaded.checkpoint.generation_defaults)
    return distance(logits, prompt, before, plain[position], other, resolved, vocab=parts_of(llm).sampler.vocab)


def distance(
    logits: Tensor,
    prompt: Sequence[int],
    before: Sequence[int],
    mine: int,
    other: int,
    params: ResolvedParams,
    *,
    vocab: int,
) -> float:
    """The same from logits [1, V] after `prompt` and the output `before`; `mine` was picked."""
    untruncated = replace(params, top_k=0, top_p=1.0, min_p=0.0, temperature=params.temperature or 1.0)
    whole = _law(logits, prompt, before, untruncated, vocab).to_dense().logp[0].double()
    if params.greedy:
        return float(whole[mine] - whole[other])
    law = _law(logits, prompt, before, params, vocab).probs()[0].double()
    position = torch.tensor([len(prompt) + len(before)])
    pair = torch.tensor([mine, other])
    noise = gumbel(torch.tensor([_signed(params.seed)]), position, Role.TARGET, 0, pair)[0].double()
    gap = max(0.0, float(whole[mine] + noise[0] - whole[other] - noise[1]))
    edge = [_to_boundary(whole, law, token, params) for token in (mine, other)]
    return min(edge[0], gap if law[other] > 0 else max(gap, edge[1]))


def _law(logits: Tensor, prompt: Sequence[int], before: Sequence[int], params: ResolvedParams, vocab: int) -> Laws:
    sampler = Sampler(1, logits.shape[1], tokens=vocab)
    sampler.admit(0, params, prompt, ())
    sampler.commit(0, before)
    return sampler.laws(logits, Nodes.plain([0], [len(prompt) + len(before)], [len(before)]))


def _to_boundary(whole: Tensor, law: Tensor, token: int, params: ResolvedParams) -> float:
    """How much `whole` must change for `token` to cross the boundary between kept and cut tokens."""
    kept = law > 0
    if bool(kept.all()):
        return torch.inf
    across = whole[~kept].max() if kept[token] else whole[kept].min()
    swap = float((whole[token] - across).abs())
    if params.top_p >= 1:
        return swap
    # A change of all logits by at most d moves a mass m by at most 2 d m (1 - m), which is no more than d / 2.
    ranked = whole.sort(descending=True).values[: params.top_k or None].exp()
    before = float(ranked[ranked > whole[token].exp()].sum() / ranked.sum())
    return min(swap, 2 * abs(before - params.top_p))


def _signed(seed: int) -> int:
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
