"""The target while an adapter is trained: it reads the text once, and gradients flow through its last layers only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.model.decoder import Decoder
from glimpse.model.linear import dense


@dataclass(frozen=True, slots=True)
class Reading:
    """What the target made of S sequences of L tokens: constants, since the text never sees a mask."""

    keys: list[Tensor]
    """For each tuned layer [S, kv_heads, L, head_dim], rotated."""
    values: list[Tensor]
    hidden: Tensor
    """[S, L, hidden] after the final norm."""
    stream: Tensor
    """[hidden]: the mean residual stream that enters the first tuned layer."""


def read(decoder: Decoder, tokens: Tensor, first: int) -> Reading:
    """The target's forward over tokens [S, L], with what its layers from `first` on offer to mask tokens."""
    count, length = tokens.shape
    keys, values, streams = list[Tensor](), list[Tensor](), list[Tensor]()

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.view(count, length, -1, x.shape[-1]).transpose(1, 2) for x in (q, k, v))
        if layer >= first:
            keys.append(k)
            values.append(v)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2).flatten(0, 1)

    def after(layer: int, stream: Tensor) -> None:
        if layer == first - 1:
            streams.append(stream.float().mean(0))

    positions = torch.arange(length, device=decoder.device).repeat(count)
    with torch.no_grad():
        flat = tokens.to(decoder.device).flatten()
        if not first:
            streams.append(decoder.embedding(flat).float().mean(0))
        hidden = decoder.forward(flat, positions, positions + 1, attend, after)
    return Reading(keys, values, hidden.view(count, length, -1), streams[0])


def trainable(decoder: Decoder, first: int) -> Decoder:
    """The same decoder with plain weights from layer `first` on and in the head; packed ones take no gradients."""
    layers = [
        layer
        if index < first
        else replace(
            layer,
            qkv=dense(layer.qkv),
            output=dense(layer.output),
            gate_up=dense(layer.gate_up),
            down=dense(layer.down),
        )
        for index, layer in enumerate(decoder.layers)
    ]
    return Decoder(decoder.spec, decoder.embedding, layers, decoder.norm, dense(decoder.head), decoder.rotary)
