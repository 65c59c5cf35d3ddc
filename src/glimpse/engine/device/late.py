"""The decoder's forward with mask tokens: text alone below the layer where they enter, both together from there on.

The eager engine runs the linears of text and masks apart; here both go through one product, so that the tuned layers'
weights are read once, and what the masks' projections differ by is added to their rows. With other rows beside it a
token's sums may be taken in another order: the text differs from that of a step without masks in near ties only.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glimpse.attention.triton.fused import rotate_and_store, silu_mul
from glimpse.cache.pool import PagePool
from glimpse.engine.device.forward import FusedForward, normed
from glimpse.errors import ArgumentError
from glimpse.model import Decoder
from glimpse.model.decoder import Projections
from glimpse.model.late import Adapted, LatePath
from glimpse.model.linear import Linear

MixInto = Callable[[int, Tensor, Tensor], Tensor]
"""mix(layer, q [N, heads, head_dim], out like q) -> out: the text's attention, as `Mix`."""
LateMix = Callable[[int, Tensor, Tensor, Tensor, Tensor], Tensor]
"""mix(layer, q [M, heads, head_dim], keys, values [kv_heads, M, head_dim], out like q) -> out: the masks' attention,
once the text's keys and values of the layer are in the pool."""


class LateForward:
    """Hidden states of text and of the mask tokens that ride on it."""

    def __init__(self, decoder: Decoder, pool: PagePool, forward: FusedForward, path: LatePath, width: int) -> None:
        """`width`: positions go from 0 to width - 1. Raises ArgumentError for a path of other projections than a
        layer's own and narrow products beside them."""
        self._decoder, self._pool, self._forward, self._path = decoder, pool, forward, path
        self._adapted = [(_adapted(own.qkv), _adapted(own.output)) for own in path.layers]
        positions = torch.arange(width, device=decoder.device)
        rotation = decoder.rotary.at(positions, positions + 1, decoder.dtype)
        self._angles = rotation.cos.contiguous(), rotation.sin.contiguous()

    def __call__(
        self, embedded: Tensor, positions: Tensor, slots: Tensor, mix: MixInto, late_positions: Tensor,
        late_mix: LateMix,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """[N, hidden] of the text and [M, hidden] of the masks after the final norm.

        `embedded` [N, hidden], written over, `positions` and `slots` as for `FusedForward`, of the text;
        `late_positions` [M] int64. The masks' keys and values go to no cache.
        """
        decoder, path = self._decoder, self._path
        text = self._forward.until(
            path.first, embedded, positions, slots, lambda layer, q: mix(layer, q, torch.empty_like(q))
        )  # fmt: skip
        count, masks = len(text), path.embedding.expand(len(late_positions), -1)
        residual, added = torch.cat([text, masks]), None
        late_slots = torch.arange(len(late_positions), device=text.device)
        for index in range(path.first, len(decoder.layers)):
            layer, own = decoder.layers[index], path.layers[index - path.first]
            qkv_own, output_own = self._adapted[index - path.first]
            x = normed(layer.attention_norm, residual, added)
            qkv = _beside(layer.qkv, qkv_own, x, count)
            q = self._rotated(qkv[:count], layer, positions, slots, self._pool.keys[index], self._pool.values[index])
            keys, values = x.new_empty(2, decoder.spec.kv_heads, len(masks), decoder.spec.head_dim).unbind()
            late_q = self._rotated(qkv[count:], own, late_positions, late_slots, keys, values)
            attended = x.new_empty(len(x), decoder.spec.heads, decoder.spec.head_dim)
            mix(index, q, attended[:count])
            late_mix(index, late_q, keys, values, attended[count:])
            output = _beside(layer.output, output_own, attended.flatten(1), count)
            added = layer.down(silu_mul(layer.gate_up(normed(layer.mlp_norm, residual, output))))
        hidden = normed(decoder.norm, residual, added)
        return hidden[:count], hidden[count:]

    def _rotated(
        self, qkv: Tensor, own: Projections, positions: Tensor, slots: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        spec, (cos, sin), norm = self._decoder.spec, self._angles, own.qk_norm
        weight, eps = (None, 0.0) if norm is None else (norm.weight, norm.eps)
        return rotate_and_store(
            qkv.view(len(qkv), -1, spec.head_dim), cos, sin, slots, keys, values, spec.heads, norm=weight, eps=eps,
            positions=positions,
        )  # fmt: skip


def _beside(linear: Linear, own: Adapted, x: Tensor, count: int) -> Tensor:
    """`linear` of x [N + M, in], with what the masks' own differs by added from row `count` on."""
    out = linear(x)
    out[count:].addmm_(x[count:] @ own.down.T, own.up.T)
    return out


def _adapted(linear: Linear) -> Adapted:
    if not isinstance(linear, Adapted):
        raise ArgumentError("mask tokens with other projections than narrow products beside the layer's own")
    return linear
