"""Late tokens by plain torch: a layer of their own projections, and nothing but that."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from glimpse.model.late import LatePath, LateTokens, LateWeights, late_layer
from tests.tiny import tiny_decoder


def weights_of(decoder, rank: int = 3, scale: float = 0.3) -> LateWeights:
    spec = decoder.spec
    width = spec.heads * spec.head_dim
    shapes = ((rank, spec.hidden_size), (spec.qkv_rows, rank), (rank, width), (spec.hidden_size, rank))
    norm = torch.rand(spec.heads + spec.kv_heads, spec.head_dim) if spec.qk_norm else None
    return LateWeights(*(scale * torch.randn(shape) for shape in shapes), qk_norm=norm)


def mean_of_values(layer, q, k, v):
    """Everyone reads everyone alike."""
    return v.mean(0, keepdim=True).repeat_interleave(q.shape[1] // v.shape[1], 1).expand_as(q)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_a_late_layer_by_hand(architecture):
    torch.manual_seed(0)
    decoder = tiny_decoder(architecture)
    layer, spec, own = decoder.layers[1], decoder.spec, weights_of(decoder)
    path = LatePath(1, torch.randn(spec.hidden_size), (late_layer(layer, own),))
    positions = torch.tensor([4, 5, 9])
    late = LateTokens(decoder, path, decoder.rotary.at(positions, positions + 1, torch.float32), mean_of_values)
    late.step(0)
    assert torch.equal(late.x, path.embedding.expand(3, -1))
    late.step(1)
    x = path.embedding.expand(3, -1)
    normed = layer.attention_norm(x)
    values = (layer.qkv(normed) + normed @ own.qkv_down.T @ own.qkv_up.T)[:, -spec.kv_heads * spec.head_dim :]
    mixed = values.view(3, spec.kv_heads, -1).mean(0).repeat_interleave(spec.heads // spec.kv_heads, 0).flatten()
    mixed = mixed.expand(3, -1)
    x = x + layer.output(mixed) + mixed @ own.output_down.T @ own.output_up.T
    gate, up = layer.gate_up(layer.mlp_norm(x)).chunk(2, -1)
    torch.testing.assert_close(late.x, x + layer.down(F.silu(gate) * up), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(late.hidden, decoder.norm(late.x))


def test_the_text_is_told_and_not_changed():
    decoder, heard = tiny_decoder(), []
    tokens = positions = torch.arange(5)
    args = (tokens, positions, positions + 1, mean_of_values)
    with torch.inference_mode():
        plain = decoder.forward(*args)
        told = decoder.forward(*args, lambda layer, x: heard.append((layer, x.shape)))
    assert torch.equal(plain, told)
    assert heard == [(0, (5, 48)), (1, (5, 48))]
