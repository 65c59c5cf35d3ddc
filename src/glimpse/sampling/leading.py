"""The tokens that came nearest to being drawn: the runners-up of a draft token."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.sampling.law import Laws
from glimpse.sampling.noise import Role, keys, log_exponential_of


def leading(
    laws: Laws, logits: Tensor, seeds: Tensor, positions: Tensor, role: Role, salt: Tensor | int = 0, count: int = 8
) -> tuple[Tensor, Tensor]:
    """Ids [N, count] (int64) and scores [N, count] (float32) of the best candidates of each law, best first.

    The score is log p plus the Gumbel noise that `pick` draws with, so the first candidate is what `pick` gives, and
    the next ones what it would give were the first not there. Where the target draws with the same noise from a law
    that is close, as under `coupled`, its pick is most likely among them. A greedy row's law is one token; its
    candidates are those of the raw `logits` [N, vocab], by log-probability. Places that no candidate fills have the
    score -inf.
    """
    ids, scores = _noisy(laws, keys(seeds, positions, role, salt).unsqueeze(1), count)
    if bool(laws.greedy.any()):
        best = torch.log_softmax(logits[laws.greedy].float(), dim=1).topk(min(count, logits.shape[1]))
        ids[laws.greedy, : best.indices.shape[1]] = best.indices
        scores[laws.greedy, : best.values.shape[1]] = best.values
    return ids, scores


def _noisy(laws: Laws, key: Tensor, count: int) -> tuple[Tensor, Tensor]:
    every = torch.arange(laws.vocab, device=laws.logp.device) if laws.ids is None else laws.ids
    best = (laws.logp - log_exponential_of(key, every)).topk(min(count, laws.logp.shape[1]))
    ids = every.expand(len(laws), -1).gather(1, best.indices)
    missing = count - ids.shape[1]
    return (
        torch.nn.functional.pad(ids, (0, missing)),
        torch.nn.functional.pad(best.values, (0, missing), value=-torch.inf),
    )
