"""Laws cut to different numbers of candidates, joined: padding weighs nothing, whichever id stands there."""

from __future__ import annotations

import pytest
import torch

from glimpse.sampling import Laws

WIDTHS = (1, 3, 2)


def cut(width: int, first: int) -> Laws:
    """A law over `width` candidates from id `first` on, of weights 1, 2, 3, ..."""
    weights = torch.arange(1, width + 1).float()
    return Laws(
        (weights / weights.sum()).log()[None], torch.arange(first, first + width)[None], torch.zeros(1).bool(), 6
    )


@pytest.mark.parametrize("first", [0, 2])
def test_joined_laws_keep_their_probabilities(first):
    parts = [cut(width, first) for width in WIDTHS]
    together = Laws.cat(parts)
    assert torch.equal(together.probs(), torch.cat([part.probs() for part in parts]))
    assert torch.equal(together.to_dense().logp, torch.cat([part.to_dense().logp for part in parts]))
    for token in range(6):
        asked = torch.full((len(parts),), token)
        assert torch.equal(together.logp_of(asked), torch.cat([part.logp_of(asked[:1]) for part in parts]))
