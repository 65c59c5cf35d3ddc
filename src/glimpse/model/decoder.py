"""The decoder: one Llama-family transformer over ragged tokens, with attention left to the caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.model.embedding import Embedding
from glimpse.model.linear import Linear
from glimpse.model.rope import Rotary, Rotation
from glimpse.model.spec import DecoderSpec

Attend: TypeAlias = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""attend(layer, q [N, heads, head_dim], k [N, kv_heads, head_dim], v [N, kv_heads, head_dim]) -> [N, heads, head_dim].

q and k are rotated already. The callback writes k and v into its cache and attends with scale 1 / sqrt(head_dim).
"""


@dataclass(slots=True)
class Norm:
    """RMSNorm over the last dimension, computed in float32 whatever the dtype.

    `weight` is [size], or [heads, size] where every head has its own.
    """

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        normed = F.rms_norm(x.to(torch.float32), self.weight.shape[-1:], None, self.eps)
        # Cast before the weight is applied, as transformers does, so that bf16 rounds alike.
        return normed.to(x.dtype).mul_(self.weight)


class Projections(Protocol):
    """What attention projects with: a layer's own, or those of tokens that have their own (`model.late`)."""

    qkv: Linear
    qk_norm: Norm | None
    output: Linear


@dataclass(slots=True)
class Layer:
    """Weights of one layer; q/k/v share one linear, gate/up another."""

    attention_norm: Norm
    qkv: Linear
    qk_norm: Norm | None
    """Weight [heads + kv_heads, head_dim]: each query head's, then each key head's."""
    output: Linear
    mlp_norm: Norm
    gate_up: Linear
    down: Linear


class Decoder:
    """A loaded model: weights and the arithmetic between attentions. Run it under `torch.inference_mode()`."""

    def __init__(
        self, spec: DecoderSpec, embedding: Embedding, layers: list[Layer], norm: Norm, head: Linear, rotary: Rotary
    ) -> None:
        self.spec, self.embedding, self.layers, self.norm, self.head = spec, embedding, layers, norm, head
        self.rotary = rotary
        self.device, self.dtype = norm.weight.device, norm.weight.dtype

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        rope_lengths: Tensor,
        attend: Attend,
        after: Callable[[int, Tensor], None] | None = None,
    ) -> Tensor:
        """Hidden states after the final norm, [N, hidden].

        `tokens`, `positions` and `rope_lengths` are [N] int64, tokens of any requests in any order: only `attend` knows
        who belongs together. See `Rotary.at` for `rope_lengths`. `after(layer, x)` is told of the residual stream [N,
        hidden] behind each layer, to be left as it is: for tokens that take a way of their own (`through`).
        """
        x = self.embedding(tokens)
        rotation = self.rotary.at(positions, rope_lengths, self.dtype)
        for index, layer in enumerate(self.layers):
            x += self._attention(index, layer, layer.attention_norm(x), rotation, attend)
            x += _mlp(layer, layer.mlp_norm(x))
            if after is not None:
                after(index, x)
        return self.norm(x)

    def through(self, index: int, own: Projections, x: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        """x [M, hidden] after one layer, its q/k/v/o projections replaced by `own`. Leaves `x` as it is.

        Gradients flow through it where the layer's linears are plain ones.
        """
        layer = self.layers[index]
        x = x + self._attention(index, own, layer.attention_norm(x), rotation, attend)
        return x + _mlp(layer, layer.mlp_norm(x))

    def logits(self, hidden: Tensor) -> Tensor:
        """[M, hidden] to [M, vocab] float32."""
        return self.head(hidden).to(torch.float32)

    def _attention(self, index: int, layer: Projections, x: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        spec = self.spec
        qkv = layer.qkv(x).view(x.shape[0], -1, spec.head_dim)
        qk = qkv[:, : -spec.kv_heads]
        if layer.qk_norm is not None:
            qk = layer.qk_norm(qk)
        qk = rotation.apply(qk)
        mixed = attend(index, qk[:, : spec.heads], qk[:, spec.heads :], qkv[:, -spec.kv_heads :])
        return layer.output(mixed.reshape(x.shape[0], -1))


def _mlp(layer: Layer, x: Tensor) -> Tensor:
    gate, up = layer.gate_up(x).chunk(2, dim=-1)
    return layer.down(F.silu(gate).mul_(up))
