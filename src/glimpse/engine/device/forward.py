"""The decoder's forward with fused kernels between the matrix products, or around them where the model is narrow."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glimpse.attention.triton.fused import rms_norm, rotate_and_store, silu_mul
from glimpse.attention.triton.narrow import Narrow, NarrowConfig
from glimpse.attention.triton.product import product
from glimpse.attention.triton.sizes import links
from glimpse.cache.pool import PagePool
from glimpse.engine.device.narrow import NarrowLayer, bitwise_layers, narrow_layers, plain_weight
from glimpse.errors import ArgumentError
from glimpse.model import Decoder
from glimpse.model.decoder import Layer, Norm

Mix = Callable[[int, Tensor], Tensor]
"""mix(layer, q [N, heads, head_dim]) -> [N, heads, head_dim]: attention over the pool, which holds the tokens."""


class FusedForward:
    """Hidden states of a batch of tokens: the same layers as `Decoder.forward`.

    Raises ArgumentError for rotary scaling that depends on the length (`dynamic`): its angles are not a table.
    """

    def __init__(
        self, decoder: Decoder, pool: PagePool, width: int, narrow: NarrowConfig | None = None, *, bitwise: bool = False
    ) -> None:
        """`width`: positions go from 0 to width - 1. `bitwise`: see `RoundSettings`; raises ArgumentError for a model
        that cannot be computed so."""
        if decoder.rotary.spec.scaling.by_length:
            raise ArgumentError("dynamic rotary scaling changes with the length; it runs on the eager path only")
        self._decoder, self._pool = decoder, pool
        positions = torch.arange(width, device=decoder.device)
        rotation = decoder.rotary.at(positions, positions + 1, decoder.dtype)
        self._cos, self._sin = rotation.cos.contiguous(), rotation.sin.contiguous()
        self._layers = bitwise_layers(decoder) if bitwise else narrow_layers(decoder)
        self._linked, self._bitwise = links(decoder.device), bitwise
        self._head = plain_weight(decoder.head) if bitwise else None
        self.narrow = narrow
        """How launches of narrow models are cut up; None: by the number of tokens."""
        self._narrows: dict[tuple[int, NarrowConfig], Narrow] = {}

    def embed(self, tokens: Tensor) -> Tensor:
        """[N, hidden] of `tokens` [N] int64."""
        return self._decoder.embedding(tokens)

    def __call__(self, embedded: Tensor, positions: Tensor, slots: Tensor, mix: Mix) -> Tensor:
        """[N, hidden] after the final norm; `embedded` [N, hidden] is written over; `positions`, `slots` [N] int64.

        Keys and values go to the pool.
        """
        decoder = self._decoder
        added = self._through(len(decoder.layers), embedded, positions, slots, mix)
        return normed(decoder.norm, embedded, added)

    def until(self, layer: int, embedded: Tensor, positions: Tensor, slots: Tensor, mix: Mix) -> Tensor:
        """[N, hidden]: the residual stream before a layer, counted from 0; else as a call."""
        added = self._through(layer, embedded, positions, slots, mix)
        return embedded if added is None else embedded.add_(added)

    def _through(self, layers: int, residual: Tensor, positions: Tensor, slots: Tensor, mix: Mix) -> Tensor | None:
        """What the last of the first `layers` layers gave, still to be added to `residual`; None: nothing is."""
        if self._layers and (self._bitwise or len(residual) <= Narrow.MOST):
            self._narrow(self._layers[:layers], residual, positions, slots, mix)
            return None
        added = None
        for index, layer in enumerate(self._decoder.layers[:layers]):
            q = self._queries(index, layer, normed(layer.attention_norm, residual, added), positions, slots)
            attended = layer.output(mix(index, q).flatten(1))
            added = layer.down(silu_mul(layer.gate_up(normed(layer.mlp_norm, residual, attended))))
        return added

    def logits(self, hidden: Tensor) -> Tensor:
        """[N, vocab] of what a call returned, [N, hidden]."""
        return self._decoder.head(hidden) if self._head is None else product(hidden, self._head, linked=self._linked)

    def _queries(self, index: int, layer: Layer, x: Tensor, positions: Tensor, slots: Tensor) -> Tensor:
        spec, pool = self._decoder.spec, self._pool
        qkv = layer.qkv(x).view(x.shape[0], -1, spec.head_dim)
        norm = layer.qk_norm
        weight, eps = (None, 0.0) if norm is None else (norm.weight, norm.eps)
        return rotate_and_store(
            qkv, self._cos, self._sin, slots, pool.keys[index], pool.values[index], spec.heads,
            norm=weight, eps=eps, positions=positions,
        )  # fmt: skip

    def _narrow(self, layers: list[NarrowLayer], residual: Tensor, positions: Tensor, slots: Tensor, mix: Mix) -> None:
        narrow, pool, heads = self._launches(len(residual)), self._pool, self._decoder.spec.heads
        for index, layer in enumerate(layers):
            first, second = layer.attention_norm, layer.mlp_norm
            q = narrow.qkv(
                residual, first.weight, first.eps, layer.qkv, self._cos, self._sin, positions, slots,
                pool.keys[index], pool.values[index], heads,
            )  # fmt: skip
            narrow.output(mix(index, q).flatten(1), layer.output, residual)
            narrow.down(narrow.gated(residual, second.weight, second.eps, layer.gate_up), layer.down, residual)

    def _launches(self, tokens: int) -> Narrow:
        """Kept, for graphs hold on to their buffers."""
        decoder, fit = self._decoder, NarrowConfig.bitwise if self._bitwise else NarrowConfig.fit
        config = self.narrow or fit(tokens, self._linked)
        key = tokens, config
        if key not in self._narrows:
            self._narrows[key] = Narrow(tokens, decoder.spec.hidden_size, decoder.device, config)
        return self._narrows[key]


def normed(norm: Norm, residual: Tensor, added: Tensor | None) -> Tensor:
    """The normed [N, hidden] of the residual stream; `added` is first added to it, in place."""
    if added is None:
        return rms_norm(residual, norm.weight, norm.eps)
    return rms_norm(added, norm.weight, norm.eps, residual)
