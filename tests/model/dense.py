"""Plain causal attention over keys and values kept in lists: what the decoder's tests attend with."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.model import Decoder


class DenseAttention:
    """The `attend` callback of one sequence; remembers every key and value it was given."""

    def __init__(self, decoder: Decoder) -> None:
        self.keys: list[list[Tensor]] = [[] for _ in range(decoder.spec.layers)]
        self.values: list[list[Tensor]] = [[] for _ in range(decoder.spec.layers)]
        self.groups = decoder.spec.heads // decoder.spec.kv_heads

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.keys[layer].append(k.clone())
        self.values[layer].append(v.clone())
        keys = torch.cat(self.keys[layer]).repeat_interleave(self.groups, dim=1)
        values = torch.cat(self.values[layer]).repeat_interleave(self.groups, dim=1)
        scores = torch.einsum("nhd,mhd->hnm", q, keys).float() / q.shape[-1] ** 0.5
        old = len(keys) - len(q)
        mask = torch.ones(len(q), len(keys), dtype=torch.bool).tril(old)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1).to(q.dtype)
        return torch.einsum("hnm,mhd->nhd", weights, values)


class DenseRun:
    """One sequence fed to a decoder piece by piece."""

    def __init__(self, decoder: Decoder, prompt: list[int]) -> None:
        self.decoder, self.attend = decoder, DenseAttention(decoder)
        self.prompt_length, self.length = len(prompt), 0
        self.last = self.feed(prompt)

    @torch.inference_mode()
    def feed(self, tokens: list[int]) -> Tensor:
        """Logits after each of `tokens`, which follow what was fed before."""
        positions = torch.arange(self.length, self.length + len(tokens))
        lengths = (positions + 1).clamp(min=self.prompt_length)
        self.length += len(tokens)
        hidden = self.decoder.forward(torch.tensor(tokens), positions, lengths, self.attend)
        return self.decoder.logits(hidden)

    def greedy(self, count: int) -> list[int]:
        """The next `count` greedy tokens."""
        out: list[int] = []
        for _ in range(count):
            out.append(int(self.last[-1].argmax()))
            self.last = self.feed(out[-1:])
        return out


def logits_of(decoder: Decoder, tokens: list[int]) -> Tensor:
    """Logits after each token of one sequence, in one forward."""
    return DenseRun(decoder, tokens).last
