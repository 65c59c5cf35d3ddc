"""Tokens that enter the decoder at a later layer, with projections of their own: the mask tokens of a block drafter.

FlexDraft (arXiv 2605.20022), "attention tuning": in the last layers mask tokens use other q/k/v/o projections and q/k
norms than the text; MLPs, norms, embedding and head are shared. Below they do not exist, and the text never sees them.
Here the other projections are the layer's own plus a product of two narrow matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from glimpse.model.decoder import Attend, Decoder, Layer, Norm
from glimpse.model.linear import Linear
from glimpse.model.rope import Rotation


@dataclass(slots=True)
class Adapted:
    """y = base(x) + (x down^T) up^T, for `down` [rank, in] and `up` [out, rank]."""

    base: Linear
    down: Tensor
    up: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)


@dataclass(frozen=True, slots=True)
class LateWeights:
    """What one layer's projections are adapted by."""

    qkv_down: Tensor
    """[rank, hidden]"""
    qkv_up: Tensor
    """[(heads + 2 kv_heads) head_dim, rank]"""
    output_down: Tensor
    """[rank, heads head_dim]"""
    output_up: Tensor
    """[hidden, rank]"""
    qk_norm: Tensor | None = None
    """[heads + kv_heads, head_dim] in the place of the layer's, for models that have one."""


@dataclass(slots=True)
class LateLayer:
    """The projections of one layer for late tokens."""

    qkv: Linear
    qk_norm: Norm | None
    output: Linear


def late_layer(layer: Layer, weights: LateWeights) -> LateLayer:
    """The projections of `layer`, adapted."""
    norm = layer.qk_norm
    if norm is not None and weights.qk_norm is not None:
        norm = Norm(weights.qk_norm, norm.eps)
    return LateLayer(
        Adapted(layer.qkv, weights.qkv_down, weights.qkv_up),
        norm,
        Adapted(layer.output, weights.output_down, weights.output_up),
    )


@dataclass(frozen=True, slots=True)
class LatePath:
    """How late tokens go through a decoder."""

    first: int
    """The layer, from 0, at which they enter; after it all layers have projections for them."""
    embedding: Tensor
    """[hidden]: what every one of them enters as."""
    layers: tuple[LateLayer, ...]


class LateTokens:
    """M late tokens on their way, run beside the text: give `step` to `Decoder.forward` as `after`."""

    def __init__(self, decoder: Decoder, path: LatePath, rotation: Rotation, attend: Attend) -> None:
        """`attend` is asked for layer after layer, when the text's keys and values of that layer are there."""
        self._decoder, self._path, self._rotation, self._attend = decoder, path, rotation, attend
        self.x = path.embedding.expand(len(rotation.cos), -1)
        """[M, hidden]: the residual stream."""

    def step(self, index: int, _: Tensor | None = None) -> None:
        """Layer `index`, if it is one of theirs."""
        if index >= self._path.first:
            own = self._path.layers[index - self._path.first]
            self.x = self._decoder.through(index, own, self.x, self._rotation, self._attend)

    @property
    def hidden(self) -> Tensor:
        """[M, hidden] after the final norm."""
        return self._decoder.norm(self.x)
