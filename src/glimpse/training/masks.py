"""Mask groups over whole sequences, with gradients: what is trained, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.drafting.block.adapter import BlockConfig, shapes_of
from glimpse.drafting.block.flex import calibrated, path_of
from glimpse.model.decoder import Decoder
from glimpse.model.late import LateTokens
from glimpse.training.frozen import Reading
from glimpse.training.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Judged:
    """What groups were worth. [S, B, size] each."""

    loss: Tensor
    right: Tensor
    """bool: the mask's likeliest token is the text's."""
    confidence: Tensor
    """float32: the probability of that token, by the mask."""


def fresh_tensors(decoder: Decoder, config: BlockConfig, stream: Tensor, seed: int) -> dict[str, Tensor]:
    """An adapter's float32 tensors before training: masks as the mean of the text, and projections as the target's."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes_of(decoder.spec, config).items():
        if name.endswith(("_down", "calibrator.in")):
            tensors[name] = torch.randn(shape, generator=generator) / shape[-1] ** 0.5
        elif name.endswith("qk_norm"):
            norm = decoder.layers[int(name.split(".")[1])].qk_norm
            assert norm is not None
            tensors[name] = norm.weight.detach().float().cpu().clone()
        else:
            tensors[name] = torch.zeros(shape)
    tensors["mask"] = stream.cpu().clone()
    return {name: tensor.to(decoder.device) for name, tensor in tensors.items()}


def branch_points(count: int, recipe: Recipe, generator: torch.Generator) -> Tensor:
    """[count, branches] int64, sorted: places of sequences behind which all of a block, and the bonus, is text."""
    places = recipe.length - recipe.size - 1
    chance = torch.rand(count, places, generator=generator)
    return chance.topk(min(recipe.branches, places), dim=1).indices.sort(1).values


def judge(
    decoder: Decoder, config: BlockConfig, tensors: Mapping[str, Tensor], reading: Reading, tokens: Tensor,
    branches: Tensor, distil: float,
) -> Judged:  # fmt: skip
    """Groups behind `branches` [S, B] of tokens [S, L], against the text and (weight `distil`) the target's laws.

    `decoder` is `trainable`; `tensors` are an adapter's, of any dtype.
    """
    own = {name: tensor.to(decoder.dtype) for name, tensor in tensors.items()}
    tokens, branches = tokens.to(decoder.device), branches.to(decoder.device)
    places = branches[:, :, None] + torch.arange(1, config.size + 1, device=branches.device)
    masks = _masks(decoder, config, own, reading, branches, places)
    bonus = decoder.embedding(tokens.gather(1, branches + 1).flatten())
    hidden = calibrated(masks.flatten(0, 1), bonus, own)
    logp = torch.log_softmax(decoder.logits(hidden.flatten(0, 1)), -1)
    answers = tokens.gather(1, places.flatten(1) + 1).flatten()
    loss = (1 - distil) * F.nll_loss(logp, answers, reduction="none")
    if distil:
        loss = loss + distil * _divergence(decoder, reading, places, logp)
    best, token = logp.detach().max(-1)
    return Judged(*(found.view(places.shape) for found in (loss, token == answers, best.exp())))


def _masks(
    decoder: Decoder, config: BlockConfig, tensors: Mapping[str, Tensor], reading: Reading, branches: Tensor,
    places: Tensor,
) -> Tensor:  # fmt: skip
    """[S, B, size, hidden]: the hidden states of the groups' masks."""
    count, groups, size = places.shape
    mask = _visible(branches, size, reading.hidden.shape[1])

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.view(count, groups * size, -1, x.shape[-1]).transpose(1, 2) for x in (q, k, v))
        keys = torch.cat([reading.keys[layer - config.first], k], 2)
        values = torch.cat([reading.values[layer - config.first], v], 2)
        # With a mask and heads in groups, a GPU has no fused attention: it writes all scores out, ten layers of them.
        keys, values = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (keys, values))
        mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return mixed.transpose(1, 2).flatten(0, 1)

    positions = places.flatten()
    rotation = decoder.rotary.at(positions, positions + 1, decoder.dtype)
    late = LateTokens(decoder, path_of(decoder, config, tensors), rotation, attend)
    for index in range(config.first, decoder.spec.layers):
        late.step(index)
    return late.hidden.view(count, groups, size, -1)


def _visible(branches: Tensor, size: int, length: int) -> Tensor:
    """[S, 1, B * size, length + B * size] bool: the text up to the branch point, and the group itself."""
    text = torch.arange(length, device=branches.device) <= branches[:, :, None]
    group = torch.arange(branches.shape[1], device=branches.device).repeat_interleave(size)
    own = (group[:, None] == group).expand(len(branches), -1, -1)
    return torch.cat([text.repeat_interleave(size, 1), own], 2)[:, None]


def _divergence(decoder: Decoder, reading: Reading, places: Tensor, logp: Tensor) -> Tensor:
    """[n]: KL(target || draft) at each mask, the target reading the text itself up to the mask's place."""
    index = places.flatten(1)[:, :, None].expand(-1, -1, reading.hidden.shape[-1])
    with torch.no_grad():
        target = torch.log_softmax(decoder.logits(reading.hidden.gather(1, index).flatten(0, 1)), -1)
    return F.kl_div(logp, target, reduction="none", log_target=True).sum(-1)
