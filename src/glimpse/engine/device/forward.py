"""The decoder's forward with fused kernels between the matrix products."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glimpse.attention.triton.fused import rms_norm, rotate_and_store, silu_mul
from glimpse.cache.pool import PagePool
from glimpse.errors import ArgumentError
from glimpse.model import Decoder
from glimpse.model.decoder import Layer, Norm

Mix = Callable[[int, Tensor], Tensor]
"""mix(layer, q [N, heads, head_dim]) -> [N, heads, head_dim]: attention over the pool, which holds the tokens already."""


class FusedForward:
    """Hidden states of a batch of tokens: the same layers as `Decoder.forward`, with its roundings.

    Raises ArgumentError for rotary scaling that depends on the length (`dynamic`): its angles are not a table.
    """

    def __init__(self, decoder: Decoder, pool: PagePool, width: int) -> None:
        """`width`: positions go from 0 to width - 1."""
        if decoder.rotary.spec.scaling.by_length:
            raise ArgumentError("dynamic rotary scaling changes with the length; it runs on the eager path only")
        self._decoder, self._pool = decoder, pool
        positions = torch.arange(width, device=decoder.device)
        rotation = decoder.rotary.at(positions, positions + 1, decoder.dtype)
        self._cos, self._sin = rotation.cos, rotation.sin

    def __call__(self, tokens: Tensor, positions: Tensor, slots: Tensor, mix: Mix) -> Tensor:
        """[N, hidden] after the final norm; `tokens`, `positions`, `slots` [N] int64. Keys and values go to the pool."""
        decoder, pool = self._decoder, self._pool
        cos, sin = self._cos[positions], self._sin[positions]
        residual = decoder.embedding(tokens)
        x = _norm(residual, decoder.layers[0].attention_norm)
        for index, layer in enumerate(decoder.layers):
            following = decoder.layers[index + 1].attention_norm if index + 1 < len(decoder.layers) else decoder.norm
            q = self._queries(layer, x, cos, sin, slots, pool.keys[index], pool.values[index])
            attended = layer.output(mix(index, q).flatten(1))
            x = _norm(attended, layer.mlp_norm, residual)
            x = _norm(layer.down(silu_mul(layer.gate_up(x))), following, residual)
        return x

    def _queries(
        self, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor, slots: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        spec = self._decoder.spec
        qkv = layer.qkv(x).view(x.shape[0], -1, spec.head_dim)
        norm = layer.qk_norm
        weight, eps = (None, 0.0) if norm is None else (norm.weight, norm.eps)
        return rotate_and_store(qkv, cos, sin, slots, keys, values, spec.heads, norm=weight, eps=eps)


def _norm(x: Tensor, norm: Norm, residual: Tensor | None = None) -> Tensor:
    return rms_norm(x, norm.weight, norm.eps, residual)
