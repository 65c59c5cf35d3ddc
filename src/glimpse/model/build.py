"""Puts a decoder together from a spec and a source of weights, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.errors import ModelError
from glimpse.model.decoder import Decoder, Layer, Norm
from glimpse.model.embedding import DenseEmbedding, Embedding, FileEmbedding
from glimpse.model.freeing import give_back
from glimpse.model.linear import DenseLinear, Linear, make_linear, packs
from glimpse.model.rope import Rotary
from glimpse.model.spec import DecoderSpec
from glimpse.model.weights.source import WeightSource

Progress = Callable[[int, int], None]
"""progress(parts done, parts in all)."""
Consider = Callable[[DecoderSpec], None]
"""Hears what a checkpoint is before its weights are read; what it raises ends the loading."""

EMBEDDING, FINAL_NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"


def build_decoder(
    spec: DecoderSpec,
    source: WeightSource,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Decoder:
    """Read, check, convert, fuse and pack all weights; at no time are two copies of more than one matrix in memory.

    Raises ModelError naming file and tensor when one is missing, has another shape than the spec, or cannot be read.
    """
    loader = Loader(spec, source, dtype, torch.device(device))
    report = progress or (lambda done, total: None)
    # The largest matrix first: packing needs a second copy for a moment, which is then not on top of all the others.
    embedding, head = loader.ends()
    layers = []
    for index in range(spec.layers):
        report(index + 1, spec.layers + 1)
        layers.append(loader.layer(index))
        give_back()
    norm = Norm(loader.read(FINAL_NORM, spec.hidden_size), spec.norm_eps)
    report(spec.layers + 1, spec.layers + 1)
    return Decoder(spec, embedding, layers, norm, head, Rotary(spec.rope, loader.device))


@dataclass(slots=True)
class Loader:
    """Reads weights by name, checks shapes, and makes the decoder's parts of them."""

    spec: DecoderSpec
    source: WeightSource
    dtype: torch.dtype
    device: torch.device

    def read(self, name: str, *shape: int) -> Tensor:
        """One tensor, checked, as its own copy in the decoder's dtype and device."""
        self._check(name, shape)
        tensor = torch.empty(shape, dtype=self.dtype, device=self.device)
        return tensor.copy_(self.source.tensor(name))

    def fused(self, names: list[str], rows: list[int], *width: int) -> Tensor:
        """Several tensors stacked into one, each read straight into its place."""
        fused = torch.empty((sum(rows), *width), dtype=self.dtype, device=self.device)
        for name, place in zip(names, torch.split(fused, rows), strict=True):
            self._check(name, tuple(place.shape))
            place.copy_(self.source.tensor(name))
        return fused

    def linear(self, names: list[str], rows: list[int], width: int, bias: bool) -> Linear:
        """One linear layer of the weights `{name}.weight`, and the biases `{name}.bias` if `bias`."""
        biases = self.fused([f"{name}.bias" for name in names], rows) if bias else None
        return make_linear(self.fused([f"{name}.weight" for name in names], rows, width), biases)

    def ends(self) -> tuple[Embedding, Linear]:
        """The embedding and the output head."""
        shape = self.spec.vocab_size, self.spec.hidden_size
        if not self.spec.tied:
            head = make_linear(self.read(HEAD, *shape))
            return DenseEmbedding(self.read(EMBEDDING, *shape)), head
        self._check(EMBEDDING, shape)
        rows = self.source.rows(EMBEDDING)
        if rows is not None and packs(self.dtype, self.device):
            return FileEmbedding(rows, self.dtype), make_linear(self.read(EMBEDDING, *shape))
        weight = self.read(EMBEDDING, *shape)
        return DenseEmbedding(weight), DenseLinear(weight)

    def layer(self, index: int) -> Layer:
        """All weights of one layer."""
        spec, base = self.spec, f"model.layers.{index}."
        attention, mlp = f"{base}self_attn.", f"{base}mlp."
        width, key_width = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        qkv = [f"{attention}{part}_proj" for part in "qkv"]
        gate_up = [f"{mlp}{part}_proj" for part in ("gate", "up")]
        inner = spec.intermediate_size
        return Layer(
            attention_norm=self._norm(f"{base}input_layernorm"),
            qkv=self.linear(qkv, [width, key_width, key_width], spec.hidden_size, spec.qkv_bias),
            qk_norm=self._qk_norm(attention) if spec.qk_norm else None,
            output=self.linear([f"{attention}o_proj"], [spec.hidden_size], width, spec.output_bias),
            mlp_norm=self._norm(f"{base}post_attention_layernorm"),
            gate_up=self.linear(gate_up, [inner, inner], spec.hidden_size, spec.mlp_bias),
            down=self.linear([f"{mlp}down_proj"], [spec.hidden_size], inner, spec.mlp_bias),
        )

    def _norm(self, name: str) -> Norm:
        return Norm(self.read(f"{name}.weight", self.spec.hidden_size), self.spec.norm_eps)

    def _qk_norm(self, attention: str) -> Norm:
        spec = self.spec
        query, key = (self.read(f"{attention}{part}_norm.weight", spec.head_dim) for part in "qk")
        weight = torch.cat((query.expand(spec.heads, -1), key.expand(spec.kv_heads, -1)))
        return Norm(weight, spec.norm_eps)

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        if name not in self.source:
            raise ModelError(f"{self.source.where(name)}: tensor {name!r} is missing")
        found = self.source.shape(name)
        if found != shape:
            raise ModelError(
                f"{self.source.where(name)}: tensor {name!r} has shape {list(found)}, "
                f"but the configuration asks for {list(shape)}"
            )
