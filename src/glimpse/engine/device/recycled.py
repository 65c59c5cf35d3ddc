"""The tokens that the target thinks likeliest after each token of a step, of what picking has left behind."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.picking import Sample
from glimpse.engine.successors import WIDTH


def likeliest(sample: Sample, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Ids [N, 8] int64 (fewer where the vocabulary has fewer) and probabilities [N, 8] float32 of `logits`.

    As `glimpse.engine.successors.likeliest`, from raw logits [N, vocab or more] that `sample` has just picked from: it
    knows the largest of each group, and the sum, so that 8 groups are all that is read again.
    """
    group, count = sample.config.group, min(WIDTH, sample.vocab)
    groups = sample.peaks.topk(min(count, sample.peaks.shape[1])).indices
    ids = (groups[:, :, None] * group + torch.arange(group, device=logits.device)).flatten(1)
    opened = logits.gather(1, ids.clamp_max(logits.shape[1] - 1)).float().masked_fill(ids >= sample.vocab, -torch.inf)
    top = opened.topk(count)
    total = torch.logsumexp(sample.summary[:, :, 0] + sample.summary[:, :, 1].log(), 1)
    return ids.gather(1, top.indices), torch.nan_to_num((top.values - total[:, None]).exp(), nan=0.0)
