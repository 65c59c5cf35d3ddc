"""Glimpse's own plain decoding at batch 1, for the public comparison."""

from __future__ import annotations

import time

import torch
from noise_decoder import noise_decoder, spec_named
from peer_timing import SAMPLED, STEPS, Timed, repeated, settle

from glimpse.cache.recall import RecallBudget
from glimpse.engine.device.batch import DeviceBatch, Limits
from glimpse.engine.device.rounds import RoundSettings
from glimpse.errors import GlimpseError
from glimpse.model import Decoder
from glimpse.sampling.params import SamplingParams
from glimpse.sampling.resolve import resolve

MOST = 8


def decoder_of(shape: str, device: torch.device) -> Decoder:
    """A decoder of the shape with random weights."""
    return noise_decoder(spec_named(shape), device, torch.bfloat16)


@torch.inference_mode()
def measure(decoder: Decoder, shape: str, context: int) -> Timed:
    """Plain decoding after a prompt of `context` random tokens, in CUDA graphs; top-p 0.9 on top of what peers do.

    Raises GlimpseError if the row has not written a token a step.
    """
    vocab, begun = decoder.spec.vocab_size, time.perf_counter()
    prompt = torch.randint(vocab, (context,), generator=torch.Generator().manual_seed(0)).tolist()
    limits = Limits(1, context + STEPS + 8 * MOST, MOST)
    batch = DeviceBatch(decoder, vocab, limits, RoundSettings(RecallBudget(share=0.001, floor=512)))
    batch.fill([prompt], [resolve(SamplingParams(**SAMPLED, top_p=0.9, seed=0))], STEPS + 4 * MOST)
    batch.rounds.plain()
    settle()
    once = time.perf_counter() - begun

    def run() -> None:
        batch.rewind()
        for _ in range(STEPS):
            batch.rounds.plain()

    seconds = repeated(run)
    if len(batch.written()[0]) != STEPS:
        raise GlimpseError(f"{len(batch.written()[0])} tokens written in {STEPS} plain steps")
    return Timed("glimpse", shape, context, seconds, once, "random weights; T=0.7, top-k 50, top-p 0.9")
