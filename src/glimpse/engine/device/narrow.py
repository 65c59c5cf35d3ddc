"""Which models take the narrow path, and their weights as it needs them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.errors import ArgumentError
from glimpse.model import Decoder
from glimpse.model.decoder import Layer, Norm
from glimpse.model.linear import DenseLinear, Linear

WIDTHS = 64
"""Widths must be multiples of this."""
WIDEST = 1024
"""Hidden sizes up to this: beyond, a step waits for bytes and cuBLAS's products are as good."""


@dataclass(frozen=True, slots=True)
class NarrowLayer:
    """Plain weights [out, in] of a layer without biases and without norms of queries and keys."""

    attention_norm: Norm
    qkv: Tensor
    output: Tensor
    mlp_norm: Norm
    gate_up: Tensor
    down: Tensor


def narrow_layers(decoder: Decoder, widest: int = WIDEST) -> list[NarrowLayer]:
    """The layers for the narrow path; none where the model is wider, or has a part that it does not do."""
    if decoder.spec.hidden_size > widest or (decoder.device.type == "cuda" and decoder.dtype == torch.float32):
        return []  # The matrix units do not take float32.
    layers = [_narrow(layer) for layer in decoder.layers]
    return [layer for layer in layers if layer is not None] if None not in layers else []


def bitwise_layers(decoder: Decoder) -> list[NarrowLayer]:
    """The layers for the bitwise mode, of any width. Raises ArgumentError for a model that it does not do."""
    layers, head = narrow_layers(decoder, decoder.spec.hidden_size), plain_weight(decoder.head)
    if not layers or head is None or head.shape[1] % WIDTHS:
        raise ArgumentError(
            "exact 'bitwise' computes plain linear layers, without biases and without norms of queries and keys, of "
            f"widths that are multiples of {WIDTHS}, in bfloat16 or float16; this model or dtype "
            f"({str(decoder.dtype).removeprefix('torch.')}) is another"
        )
    return layers


def _narrow(layer: Layer) -> NarrowLayer | None:
    weights = [plain_weight(linear) for linear in (layer.qkv, layer.output, layer.gate_up, layer.down)]
    qkv, output, gate_up, down = weights
    if layer.qk_norm is not None or qkv is None or output is None or gate_up is None or down is None:
        return None
    if any(weight.shape[1] % WIDTHS or weight.shape[0] % WIDTHS for weight in (qkv, output, gate_up, down)):
        return None
    return NarrowLayer(layer.attention_norm, qkv, output, layer.mlp_norm, gate_up, down)


def plain_weight(linear: Linear) -> Tensor | None:
    """[out, in] of a linear layer that is nothing but its weight; None of any other."""
    return linear.weight if isinstance(linear, DenseLinear) and linear.bias is None else None
