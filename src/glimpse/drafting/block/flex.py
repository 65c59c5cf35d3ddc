"""FlexDraft's head: the target itself, through projections tuned for mask tokens (arXiv 2605.20022).

Differs from the paper in what is left out of a group: it has no mask for the bonus token, which the target itself
gives. The first mask stands in the bonus token's place, and each mask says what comes after its own: `size` masks are
`size` drafts. The projections' changes may be of low rank, and the calibrator ends in the frozen head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.drafting.block.adapter import Adapter, BlockConfig
from glimpse.drafting.block.contract import Seen
from glimpse.model.decoder import Decoder
from glimpse.model.late import LatePath, LateWeights, late_layer

CALIBRATOR = ("calibrator.in", "calibrator.bias", "calibrator.out")


def path_of(decoder: Decoder, config: BlockConfig, tensors: Mapping[str, Tensor]) -> LatePath:
    """The way of mask tokens through `decoder`, for tensors of its dtype and on its device."""
    layers = []
    for index in range(config.first, decoder.spec.layers):
        prefix = f"layers.{index}."
        own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        weights = LateWeights(**own)
        layers.append(late_layer(decoder.layers[index], weights))
    return LatePath(config.first, tensors["mask"], tuple(layers))


def calibrated(hidden: Tensor, bonus: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
    """Hidden states [rows, size, hidden] of masks, once the embedding `bonus` [rows, hidden] is known.

    "Bonus-guided calibration": a group was drafted before the token that it begins after was known. Two layers on
    [bonus; hidden], added to the hidden states; the paper's own end in the vocabulary, at 29 times the size for the
    demo model.
    """
    enter, bias, leave = (tensors[name] for name in CALIBRATOR)
    both = torch.cat([bonus[:, None].expand_as(hidden), hidden], -1)
    return hidden + F.linear(F.silu(F.linear(both, enter, bias)), leave)


class FlexHead:
    """Mask tokens in, logits out."""

    def __init__(self, decoder: Decoder, adapter: Adapter) -> None:
        ready = {name: tensor.to(decoder.device, decoder.dtype) for name, tensor in adapter.tensors.items()}
        self.path: LatePath | None = path_of(decoder, adapter.config, ready)
        self.size = adapter.config.size
        self._decoder, self._tensors = decoder, {name: ready[name] for name in CALIBRATOR}

    def propose(self, seen: Sequence[Seen]) -> Tensor:
        """See `BlockHead.propose`: the frozen head on the calibrated masks."""
        masks = torch.stack([one.masks for one in seen if one.masks is not None])
        hidden = self.calibrate(masks, torch.tensor([one.bonus for one in seen], device=masks.device))
        return self._decoder.logits(hidden.flatten(0, 1)).view(*hidden.shape[:2], -1)

    def calibrate(self, masks: Tensor, bonus: Tensor) -> Tensor:
        """Hidden states [rows, size, hidden] of masks, once the tokens `bonus` [rows] int64 before them are known."""
        return calibrated(masks, self._decoder.embedding(bonus), self._tensors)

    def retire(self, slot: int) -> None:
        """Keeps nothing of a row."""
