"""Teacher forcing: how close the plain path was to another token than the one it wrote.

A verify row and a decode row of the same token may differ by rounding. Where two outputs part, the difference is a tie
only if the plain path's own scores of the two tokens are that close.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from glimpse.attention import RowSpec
from glimpse.cache.sequence import Sequence
from glimpse.engine.forward import forward
from glimpse.engine.parts import Parts
from glimpse.engine.phases import CHUNK
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.noise import Role, keys, log_exponential_of
from glimpse.sampling.params import ResolvedParams


def margin(
    parts: Parts, prompt: list[int], params: ResolvedParams, written: list[int], rivals: tuple[int, int]
) -> float | None:
    """By how much the plain path prefers the first of two tokens after `prompt` and the output `written` so far.

    The score of a token is its log-probability after all processors and the temperature, before any truncation, plus
    its noise where the request samples. Leaves everything as it was; None where no row of the engine is free.
    """
    with parts.lock, torch.inference_mode():
        free = parts.rows.free_slots()
        return _margin(parts, free[0], prompt, params, written, rivals) if free else None


def _margin(
    parts: Parts, slot: int, prompt: list[int], params: ResolvedParams, written: list[int], rivals: tuple[int, int]
) -> float:
    text = prompt + written
    settings = replace(params, temperature=params.temperature or 1.0, top_k=0, top_p=1.0, min_p=0.0)
    sequence = Sequence(parts.pool, expected=len(text), shared=parts.prefixes.find(prompt))
    parts.sampler.admit(slot, settings, prompt, parts.eos_token_ids)
    parts.rows.open(slot, text, sequence, len(text) + 1)
    parts.rows.prompt_len[slot] = len(prompt)
    parts.sampler.commit(slot, written)
    try:
        logits = _read(parts, slot, sequence, len(text))
        nodes = Nodes.plain([slot], [len(text)], [len(written)])
        pair = torch.tensor(rivals)
        scores = parts.sampler.laws(logits, nodes).to_dense().logp[0, pair]
        if not params.greedy:
            key = keys(parts.sampler.seeds_of(nodes), nodes.position, Role.TARGET, 0)
            scores = scores - log_exponential_of(key, pair)
        return float(scores[0] - scores[1])
    finally:
        parts.sampler.retire(slot)
        parts.rows.close(slot)


def _read(parts: Parts, slot: int, sequence: Sequence, length: int) -> Tensor:
    """Logits [1, vocab] after the whole text of a row."""
    sequence.reserve(length)
    logits = torch.empty(0)
    while (start := int(parts.rows.verified_len[slot])) < length:
        spec = RowSpec(slot, sequence, start, min(CHUNK, length - start))
        logits = forward(parts.decoder, parts.pool, parts.rows, [spec]).logits[0]
        parts.rows.verified_len[slot] = spec.stop
    return logits
