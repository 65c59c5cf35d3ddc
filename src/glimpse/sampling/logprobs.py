"""Log-probabilities to report: the model's own, before any option changed the logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.sampling.truncation import ranking

_MARGIN = 8


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """What is reported of N tokens, float32 and natural logarithms."""

    logprobs: Tensor
    """[N]: log-softmax of the raw logits at each token, at temperature 1 and without penalties, bias or truncation."""
    ranks: Tensor
    """[N] int64: 1 for the most probable token; equal ones rank by id."""
    top_ids: Tensor
    """[N, top] int64: the most probable tokens, most probable first."""
    top_logprobs: Tensor
    """[N, top]."""


def token_logprobs(logits: Tensor, tokens: Tensor, top: int) -> TokenLogprobs:
    """The log-probabilities of tokens[i] in logits row i ([N, V] raw logits), and of the `top` most probable tokens."""
    logp = torch.log_softmax(logits.float(), dim=1)
    own = logp.gather(1, tokens.unsqueeze(1))
    ids = torch.arange(logits.shape[1], device=logits.device)
    ahead = (logp > own) | ((logp == own) & (ids < tokens.unsqueeze(1)))
    top_ids = _top(logp, min(top, logits.shape[1]))
    return TokenLogprobs(own.squeeze(1), ahead.sum(dim=1) + 1, top_ids, logp.gather(1, top_ids))


def _top(logp: Tensor, top: int) -> Tensor:
    """[N, top] ids, most probable first; ties by id, also at the boundary."""
    width = top + _MARGIN
    values, ids = ranking(logp, width)
    if 0 < top < values.shape[1] and bool((values[:, top - 1] == values[:, -1]).any()):
        _, ids = ranking(logp, logp.shape[1])
    return ids[:, :top]
