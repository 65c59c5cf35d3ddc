"""The weights of a grown twin, made one tensor at a time out of the source's."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from glimpse.bench.grow_plan import GrownShape, plan_twin, twin_spec
from glimpse.model.build import EMBEDDING, FINAL_NORM, HEAD
from glimpse.model.spec import DecoderSpec
from glimpse.model.weights.source import WeightSource

_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")
_NORM_BEFORE = {
    "self_attn.q_proj": "input_layernorm",
    "self_attn.k_proj": "input_layernorm",
    "self_attn.v_proj": "input_layernorm",
    "mlp.gate_proj": "post_attention_layernorm",
    "mlp.up_proj": "post_attention_layernorm",
}
"""The linears that read the residual stream, and the norm whose weights are folded into them."""


class GrownWeights:
    """A `WeightSource` of the twin. With R [D, d] of random orthonormal columns, its residual stream is R x.

    A norm of the twin divides by sqrt((|x|^2 + d eps) / D) and multiplies by sqrt(d / D), which gives R times the
    source's normalised x. So linears that read get W diag(norm) R^T, those that write get R W. Made in float32 on
    `device`; no more than one matrix of the twin and one of the source exist at a time.
    """

    def __init__(
        self,
        source: DecoderSpec,
        weights: WeightSource,
        shape: GrownShape,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        """`seed` chooses R. Raises ArgumentError for a shape that the source cannot grow into."""
        self.source, self.spec = source, twin_spec(source, shape)
        self.plan = plan_twin(source, self.spec)
        self._weights, self._device = weights, torch.device(device)
        self.rotation = _orthonormal(source.hidden_size, self.spec.hidden_size, seed).to(self._device)
        """R"""

    def __contains__(self, name: str) -> bool:
        return name == HEAD or self._source_name(name) in self._weights

    def where(self, name: str) -> str:
        return self._weights.where(self._source_name(name))

    def shape(self, name: str) -> tuple[int, ...]:
        spec = self.spec
        if name in (EMBEDDING, HEAD):
            return spec.vocab_size, spec.hidden_size
        part, kind = _part(name)
        width, key_width = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        rows = {
            "q_proj": width,
            "k_proj": key_width,
            "v_proj": key_width,
            "q_norm": spec.head_dim,
            "k_norm": spec.head_dim,
        }
        rows |= dict.fromkeys(("gate_proj", "up_proj"), spec.intermediate_size)
        columns = {"o_proj": width, "down_proj": spec.intermediate_size}
        last = part.rpartition(".")[2]
        if kind == "bias" or last.endswith("norm"):
            return (rows.get(last, spec.hidden_size),)
        return rows.get(last, spec.hidden_size), columns.get(last, spec.hidden_size)

    def rows(self, name: str) -> None:
        """Nothing is in a file."""

    def tensor(self, name: str) -> Tensor:
        if name == EMBEDDING:
            return self._padded(self.read(EMBEDDING) @ self.rotation.t())
        if name == HEAD:
            head = self.read(EMBEDDING if self.source.tied else HEAD)
            return self._padded((head * self.read(FINAL_NORM)) @ self.rotation.t())
        part, kind = _part(name)
        if part.endswith(("q_norm", "k_norm")):
            return self._head_norm(name)
        if part.endswith("norm"):
            size = self.spec.hidden_size
            return torch.full((size,), (self.source.hidden_size / size) ** 0.5, device=self._device)
        return self._reading(name, part, kind) if part in _NORM_BEFORE else self._writing(name, part, kind)

    def _reading(self, name: str, part: str, kind: str) -> Tensor:
        """Rows that read the residual stream: one a head's dimension or a unit."""
        rows = self.read(self._source_name(name))
        if kind == "weight":
            norm = self._source_name(name).replace(f"{part}.weight", f"{_NORM_BEFORE[part]}.weight")
            rows = (rows * self.read(norm)) @ self.rotation.t()
        return self.spread(rows, part)

    def _writing(self, name: str, part: str, kind: str) -> Tensor:
        """Columns that write to the residual stream; all zero in a layer that only stands in."""
        if not self.plan.layers[int(_layer(name))][1]:
            return torch.zeros(self.shape(name), device=self._device)
        source = self.read(self._source_name(name))
        if kind == "bias":
            return self.rotation @ source
        return self.spread(source.t() @ self.rotation.t(), part).t()

    def spread(self, rows: Tensor, part: str) -> Tensor:
        """Rows [source rows, *] of the linear `part` to [twin rows, *]: to its units, or to the places of its heads'
        dimensions. Of linears that write, their columns, transposed."""
        plan = self.plan
        if part.startswith("mlp."):
            return self._copied(rows, plan.units.source, plan.units.write if part == "mlp.down_proj" else None)
        heads = self.placed(rows.view(-1, self.source.head_dim, *rows.shape[1:]))
        if part in ("self_attn.k_proj", "self_attn.v_proj"):
            spread = self._copied(heads, plan.kv_heads, None)
        else:
            spread = self._copied(
                heads, plan.heads.source, plan.heads.write if part == "self_attn.o_proj" else plan.heads.read
            )
        return spread.flatten(0, 1).mul_(self._head_scale(part))

    def _head_scale(self, part: str) -> float:
        """What keeps q k / sqrt(head size) the same; with q/k norms, what keeps their eps in proportion."""
        larger = self.spec.head_dim / self.source.head_dim
        if part not in ("self_attn.q_proj", "self_attn.k_proj"):
            return 1.0
        if self.source.qk_norm:
            return float((larger * self.source.hidden_size / self.spec.hidden_size) ** 0.5)
        return float(larger**0.5) if part == "self_attn.q_proj" else 1.0

    def _head_norm(self, name: str) -> Tensor:
        weight = self.placed(self.read(self._source_name(name))[None])[0]
        return weight * self.key_norm_scale if "k_norm" in name else weight

    @property
    def key_norm_scale(self) -> float:
        """What keys' norms are times, so that q k / sqrt(head size) stays the same."""
        return float((self.source.head_dim / self.spec.head_dim) ** 0.5)

    def placed(self, heads: Tensor) -> Tensor:
        """[heads, h, *] to [heads, H, *]: pair (i, i + h/2) goes to (i, i + H/2)."""
        half, size = self.source.head_dim // 2, self.spec.head_dim
        placed = heads.new_zeros(heads.shape[0], size, *heads.shape[2:])
        placed[:, :half] = heads[:, :half]
        placed[:, size // 2 : size // 2 + half] = heads[:, half:]
        return placed

    def _copied(self, parts: Tensor, source: tuple[int, ...], factors: tuple[int, ...] | None) -> Tensor:
        copied = parts.index_select(0, torch.tensor(source, device=self._device))
        if factors is None:
            return copied
        signs = torch.tensor(factors, dtype=copied.dtype, device=self._device)
        return copied.mul_(signs.view(-1, *[1] * (copied.dim() - 1)))

    def _padded(self, rows: Tensor) -> Tensor:
        """Rows for ids that do not exist: each the mean of two real ones, so that its logit is never the largest."""
        padded = rows.new_empty(self.spec.vocab_size, rows.shape[1])
        padded[: len(rows)] = rows
        for start in range(len(rows), len(padded), len(rows) - 1):
            block = padded[start : start + len(rows) - 1]
            block.copy_(rows[: len(block)]).add_(rows[1 : len(block) + 1]).mul_(0.5)
        return padded

    def read(self, name: str) -> Tensor:
        """A tensor of the source, by its name there."""
        return self._weights.tensor(name).to(device=self._device, dtype=torch.float32)

    def _source_name(self, name: str) -> str:
        found = _LAYER.fullmatch(name)
        if found is None:
            return EMBEDDING if name == HEAD and self.source.tied else name
        return f"model.layers.{self.plan.layers[int(found[1])][0]}.{found[2]}.{found[3]}"


def _part(name: str) -> tuple[str, str]:
    found = _LAYER.fullmatch(name)
    return (found[2], found[3]) if found else (name.removesuffix(".weight"), "weight")


def _layer(name: str) -> str:
    return name.split(".")[2]


def _orthonormal(source: int, twin: int, seed: int) -> Tensor:
    """[twin, source] float32 with orthonormal columns: the first columns of a random rotation."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(twin, source, generator=generator, dtype=torch.float64)
    columns: Tensor = torch.linalg.qr(noise).Q
    return columns.to(torch.float32)
