"""A checkpoint in memory with the cache that its engines share."""

from __future__ import annotations

import os
from dataclasses import dataclass

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.prefix import PrefixStore
from glimpse.errors import ArgumentError
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


def load(checkpoint: Checkpoint, max_context: int | None, slots: int) -> Loaded:
    """A cache for `slots` requests of full length, but for at most half of the machine's memory.

    Raises ArgumentError for a context longer than the checkpoint's.
    """
    decoder, spec = checkpoint.decoder, checkpoint.spec
    context = _context(spec.context_length, max_context)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    affordable = memory // 2 // spec.kv_bytes_per_token(decoder.dtype)
    tokens = max(context, min(slots * context, affordable))
    shape = CacheShape(spec.layers, spec.kv_heads, spec.head_dim)
    pool = PagePool(shape, -(-tokens // PAGE_SIZE), PAGE_SIZE, decoder.dtype, decoder.device)
    prefixes = PrefixStore(pool, by_length=spec.rope.scaling.by_length)
    found = calibration.find(checkpoint.name, spec, decoder.dtype, decoder.device)
    return Loaded(checkpoint, pool, prefixes, context, slots, found.coefficients if found else None)


def _context(limit: int, asked: int | None) -> int:
    if asked is None:
        return limit
    if not 1 <= asked <= limit:
        raise ArgumentError(f"max_context must be from 1 to {limit} (the checkpoint's limit), not {asked}")
    return asked
