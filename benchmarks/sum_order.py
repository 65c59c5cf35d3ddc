"""How often do picks differ where nothing but the order of the products' float32 sums does? The demo model in bf16.

    PYTHONPATH=src python3 benchmarks/sum_order.py --model demo.gguf --ids ids.npz

On a CPU, teacher-forced over 600 tokens, with keys and values of its own for every order. The noise of a pick is the
same for all, so what is printed is the least that any two kernels with other orders part by, whatever their design.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.model import Decoder, load_checkpoint
from glimpse.model.decoder import Layer

TOKENS, TEMPERATURE, TOP_K, TOP_P = 600, 0.7, 50, 0.9
KINDS = ("qkv", "output", "gate_up", "down")
Product = Callable[[Tensor, Tensor], Tensor]


def in_parts(width: int) -> Product:
    """Sums of `width` columns of the inner dimension each, one added to the other."""

    def product(x: Tensor, weight: Tensor) -> Tensor:
        pairs = zip(torch.split(x, width, 1), torch.split(weight, width, 1), strict=True)
        return torch.stack([part @ own.T for part, own in pairs]).sum(0)

    return product


ORDERS: dict[str, Product] = {
    "float32": lambda x, weight: x @ weight.T,
    "float64": lambda x, weight: (x.double() @ weight.double().T).float(),
    "512 columns a sum": in_parts(512),
    "64 columns a sum": in_parts(64),
}


def dense(linear: Callable[[Tensor], Tensor], width: int) -> Tensor:
    """The weight [out, in] in float32, whatever layout it is kept in."""
    return linear(torch.eye(width, dtype=torch.bfloat16)).T.float()


def exchange(layer: Layer, weights: dict[str, Tensor], product: Product) -> None:
    """Lets the layer's linears multiply in another order and round to bf16."""
    for kind, weight in weights.items():
        setattr(layer, kind, lambda x, w=weight: product(x.float(), w).to(torch.bfloat16))


def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention in float32."""
    q, k, v = (tensor.transpose(0, 1).float()[None] for tensor in (q, k, v))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return mixed[0].transpose(0, 1).to(torch.bfloat16)


def picks(logits: Tensor, noise: Tensor) -> Tensor:
    """Sampled tokens: Gumbel noise over what top-k and top-p leave."""
    scores = logits / TEMPERATURE
    scores[scores < scores.topk(TOP_K).values[:, -1:]] = -torch.inf
    ranked, order = torch.softmax(scores, -1).sort(-1, descending=True)
    cut = ranked.cumsum(-1) - ranked >= TOP_P
    scores = scores.masked_fill(torch.zeros_like(cut).scatter_(1, order, cut), -torch.inf)
    return (scores + noise).argmax(-1)


def logits_by(decoder: Decoder, weights: list[dict[str, Tensor]], ids: Tensor, product: Product) -> Tensor:
    """[tokens, vocab] of one order."""
    for layer, own in zip(decoder.layers, weights, strict=True):
        exchange(layer, own, product)
    positions = torch.arange(len(ids))
    return decoder.logits(decoder.forward(ids, positions, positions + 1, attend))


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--ids", type=Path, required=True)
    options = parser.parse_args()
    decoder, texts = load_checkpoint(options.model, dtype=torch.bfloat16, device="cpu").decoder, np.load(options.ids)
    ids = torch.from_numpy(texts[texts.files[0]].astype(np.int64)[20000 : 20000 + TOKENS])
    hidden, inner = decoder.spec.hidden_size, decoder.spec.intermediate_size
    widths = dict(zip(KINDS, (hidden, decoder.spec.heads * decoder.spec.head_dim, hidden, inner), strict=True))
    weights = [{kind: dense(getattr(layer, kind), widths[kind]) for kind in KINDS} for layer in decoder.layers]
    found = {name: logits_by(decoder, weights, ids, product) for name, product in ORDERS.items()}
    uniform = torch.rand(found["float32"].shape, generator=torch.Generator().manual_seed(5))
    noise = -torch.log(-torch.log(uniform.clamp(1e-9, 1 - 1e-7)))
    for one, other in itertools.combinations(ORDERS, 2):
        left, right = found[one], found[other]
        sampled = (picks(left.clone(), noise) != picks(right.clone(), noise)).float().mean()
        greedy = (left.argmax(-1) != right.argmax(-1)).float().mean()
        print(f"{one} / {other}: {sampled:.1%} of sampled picks differ, {greedy:.1%} of greedy", flush=True)


if __name__ == "__main__":
    main()
