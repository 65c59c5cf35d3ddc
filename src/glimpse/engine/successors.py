"""The tokens that the target thinks likeliest after what it read, for drafters that recycle logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glimpse.attention import RowSpec
from glimpse.cache.rows import Rows
from glimpse.drafting.drafter import Successors

WIDTH = 8
"""Successors of a token ("copy-logit"; RACER, arXiv 2604.14885, section 3)."""
_GROUP = 64
"""Ids of which only the likeliest is looked at before the likeliest groups are opened: a topk over few values."""
_PIECE = 64
"""Rows of logits at a time, so that their probabilities stay small."""


def successors_of(rows: Rows, specs: Sequence[RowSpec], logits: Sequence[Tensor]) -> list[Successors]:
    """For each row what comes after the tokens whose logits [n, vocab] there are: the row's last n ones.

    To be read off before the rows commit.
    """
    pieces = [piece for own in logits[: len(specs)] for piece in torch.split(own, _PIECE)]
    found = [likeliest(piece) for piece in pieces]
    counts = [len(own) for own in logits[: len(specs)]]
    ids, chances = (torch.split(torch.cat(parts), counts) for parts in zip(*found, strict=True))
    fed = [rows.tokens[spec.slot, spec.stop - count : spec.stop] for spec, count in zip(specs, counts, strict=True)]
    return [Successors(*facts) for facts in zip([own.clone() for own in fed], ids, chances, strict=True)]


def likeliest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Ids [n, 8] (int64; fewer where the vocabulary has fewer) and probabilities [n, 8] of logits [n, vocab].

    Logits that are not finite have probability 0.
    """
    count = min(WIDTH, logits.shape[1])
    ids = _topk_grouped(logits, count) if logits.shape[1] % _GROUP == 0 else logits.topk(count).indices
    return ids, torch.nan_to_num(logits.softmax(1).gather(1, ids), nan=0.0)


def _topk_grouped(logits: Tensor, count: int) -> Tensor:
    """The `count` largest lie in the `count` groups with the largest maxima."""
    groups = logits.view(len(logits), -1, _GROUP)
    chosen = groups.amax(-1).topk(min(count, groups.shape[1])).indices
    opened = groups.gather(1, chosen[:, :, None].expand(-1, -1, _GROUP)).flatten(1)
    places = opened.topk(count).indices
    return chosen.gather(1, places // _GROUP) * _GROUP + places % _GROUP
