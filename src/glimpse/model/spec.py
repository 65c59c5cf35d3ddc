"""What a decoder is: sizes and switches, whatever file format they came from."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from glimpse.model.rope import RopeSpec


@dataclass(frozen=True, slots=True)
class DecoderSpec:
    """Shape of a Llama-family decoder."""

    architecture: str
    """"llama", "mistral", "qwen2" or "qwen3"."""
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    tied: bool
    """The output head is the embedding."""
    rope: RopeSpec
    context_length: int
    """Most tokens a request may have, prompt and completion together.

    `max_position_embeddings` of the checkpoint; times the factor for `dynamic` scaling, and for `yarn` the larger of it
    and the trained length times the factor.
    """
    eos_token_ids: tuple[int, ...]

    @property
    def qkv_rows(self) -> int:
        """Rows of the fused q/k/v weight."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    def kv_bytes_per_token(self, dtype: torch.dtype) -> int:
        """Cache bytes one token takes over all layers, keys and values, KV heads not repeated."""
        return self.layers * 2 * self.kv_heads * self.head_dim * dtype.itemsize

    def parameters(self) -> int:
        """Number of weights; a tied head counts once."""
        width = self.heads * self.head_dim
        layer = self.hidden_size * (self.qkv_rows + width + 3 * self.intermediate_size + 2)
        layer += self.qkv_rows * self.qkv_bias + self.hidden_size * self.output_bias
        layer += (2 * self.intermediate_size + self.hidden_size) * self.mlp_bias + 2 * self.head_dim * self.qk_norm
        ends = self.vocab_size * self.hidden_size * (1 if self.tied else 2) + self.hidden_size
        return self.layers * layer + ends

    def weight_bytes(self, dtype: torch.dtype) -> int:
        """Bytes of all weights in `dtype`."""
        return self.parameters() * dtype.itemsize

    def step_weight_bytes(self, dtype: torch.dtype) -> int:
        """W: weight bytes that a decoding step reads. An untied embedding is only looked up, a few rows a step."""
        looked_up = 0 if self.tied else self.vocab_size * self.hidden_size
        return (self.parameters() - looked_up) * dtype.itemsize
