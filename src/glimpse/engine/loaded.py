"""A checkpoint in memory with the cache that its engines share."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import RLock

import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.prefix import PrefixStore
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.model import Checkpoint
from glimpse.pacing import calibration

PAGE_SIZE = 16


@dataclass(frozen=True, slots=True)
class Loaded:
    """What several engines (plain and speculative, say) have in common."""

    checkpoint: Checkpoint
    pool: PagePool
    prefixes: PrefixStore
    context: int
    """Tokens of prompt and output together, at most."""
    slots: int
    """Requests that run at once, at most."""
    step_costs: tuple[float, ...] | None = None
    """Coefficients of `StepCosts` that `glimpse calibrate` measured; None: not calibrated."""
    lock: AbstractContextManager[object] = field(default_factory=RLock, compare=False)
    """Held during every call of an engine."""


def load(checkpoint: Checkpoint, max_context: int | None, slots: int) -> Loaded:
    """A cache for `slots` requests of full length, but for at most half of the machine's memory.

    Raises ArgumentError for a context longer than the checkpoint's, GlimpseError for one that does not fit the memory.
    """
    decoder, spec = checkpoint.decoder, checkpoint.spec
    context = _context(spec.context_length, max_context)
    memory = _memory(decoder.device)
    affordable = memory // 2 // (spec.kv_bytes_per_token(decoder.dtype) * PAGE_SIZE)
    one = -(-context // PAGE_SIZE)
    _check_memory(context, slots, one, affordable, memory)
    shape = CacheShape(spec.layers, spec.kv_heads, spec.head_dim)
    pool = PagePool(shape, min(slots * one, affordable), PAGE_SIZE, decoder.dtype, decoder.device)
    prefixes = PrefixStore(pool, by_length=spec.rope.scaling.by_length)
    found = calibration.find(checkpoint.name, spec, decoder.dtype, decoder.device)
    return Loaded(checkpoint, pool, prefixes, context, slots, found.coefficients if found else None)


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        torch.cuda.empty_cache()
        # Half of it may be taken; what is free is for nobody else.
        return int(torch.cuda.mem_get_info(device)[0] * 1.6)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _check_memory(context: int, slots: int, pages: int, affordable: int, memory: int) -> None:
    if pages > affordable:
        raise GlimpseError(
            f"a context of {context} tokens does not fit half of this machine's memory, which takes "
            f"{affordable * PAGE_SIZE}; set max_context"
        )
    # Eight bytes a token id; the rows' other arrays are small beside it.
    most = memory // 16 // (8 * context)
    if slots > most:
        raise ArgumentError(
            f"max_batch_size {slots} rows of {context} tokens take too much memory; at most {most} here"
        )


def _context(limit: int, asked: int | None) -> int:
    if asked is None:
        return limit
    if not 1 <= asked <= limit:
        raise ArgumentError(f"max_context must be from 1 to {limit} (the checkpoint's limit), not {asked}")
    return asked
