"""A checkpoint in memory with the cache that its engines share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.prefix import PrefixStore
from glimpse.drafting.drafter import SCORES
from glimpse.drafting.suffix.store import SuffixStore
from glimpse.engine.lock import lock_for
from glimpse.engine.machine import MachineOptions
from glimpse.engine.memory import PAGE_SIZE, Demand, costs_of, memory_of, within_memory
from glimpse.engine.options import STORE_TOKENS
from glimpse.errors import ArgumentError
from glimpse.model import Checkpoint, DecoderSpec, open_model
from glimpse.pacing import calibration
from glimpse.sampling.grammar import Grammars

_OVERTAKEN = "it would have fitted, but something else took memory meanwhile; try again, or lower max_context"


@dataclass(frozen=True)
class Loaded:
    """What several engines (plain and speculative, say) have in common."""

    checkpoint: Checkpoint
    pool: PagePool
    prefixes: PrefixStore
    context: int
    """Tokens of prompt and output together, at most."""
    slots: int
    """Requests that run at once, at most."""
    lock: AbstractContextManager[object] = field(compare=False)
    """Held during every call of an engine."""
    step_costs: tuple[float, ...] | None = None
    """Coefficients of `StepCosts` that `glimpse calibrate` measured; None: not calibrated."""
    stores: dict[str, SuffixStore] = field(default_factory=dict, compare=False)
    """What requests left to later ones, by the name that both gave (`EngineOptions.suffix_store`)."""

    @cached_property
    def grammars(self) -> Grammars:
        """Compiles what texts may be."""
        checkpoint = self.checkpoint
        return Grammars(checkpoint.tokenizer.fast, checkpoint.spec.vocab_size, checkpoint.spec.eos_token_ids)

    def store(self, name: str | None, tokens: int | None) -> SuffixStore | None:
        """The store of a name, made where there is none yet; None for no name.

        Raises ArgumentError where it is there with another size.
        """
        if name is None:
            return None
        found = self.stores.get(name)
        if found is None:
            found = self.stores[name] = SuffixStore(name, tokens or STORE_TOKENS)
        if tokens is not None and found.capacity != tokens:
            raise ArgumentError(f"suffix_store {name!r} keeps {found.capacity} tokens already, not {tokens}")
        return found


def open_loaded(
    model: str | Path,
    machine: MachineOptions,
    device: torch.device,
    progress: Callable[[int, int], None],
    scores: torch.dtype = SCORES,
) -> Loaded:
    """A checkpoint with its cache on a device; whether they fit is known before the weights are read.

    `progress(done, total)` hears of the weights; `scores`: see `load`. Raises what `open_model` and `load` raise.
    """
    dtype, context, slots = machine.dtype_on(device), machine.max_context, machine.max_batch_size

    def consider(spec: DecoderSpec) -> None:
        demand_of(spec, dtype, device, context, slots, loaded=False, scores=scores).check()

    def opened() -> Loaded:
        checkpoint = open_model(model, dtype=dtype, device=device, progress=progress, consider=consider)
        return load(checkpoint, context, slots, scores)

    return within_memory(opened, device, _OVERTAKEN)


def load(checkpoint: Checkpoint, max_context: int | None, slots: int, scores: torch.dtype = SCORES) -> Loaded:
    """A cache for `slots` requests of full length, or as much of it as fits the memory (see `Demand`).

    `scores`: the `Drafter.scores` that there has to be room for. Raises ArgumentError for a context longer than the
    checkpoint's, GlimpseError where not even one request fits.
    """
    decoder, spec = checkpoint.decoder, checkpoint.spec
    demand = demand_of(spec, decoder.dtype, decoder.device, max_context, slots, loaded=True, scores=scores)
    shape = CacheShape(spec.layers, spec.kv_heads, spec.head_dim)
    pool = PagePool(shape, demand.pages, PAGE_SIZE, decoder.dtype, decoder.device)
    prefixes = PrefixStore(pool, by_length=spec.rope.scaling.by_length)
    found = calibration.find(checkpoint.name, spec, decoder.dtype, decoder.device)
    costs = found.coefficients if found else None
    return Loaded(checkpoint, pool, prefixes, demand.context, slots, lock_for(decoder.device), costs)


def demand_of(
    spec: DecoderSpec,
    dtype: torch.dtype,
    device: torch.device,
    max_context: int | None,
    slots: int,
    *,
    loaded: bool,
    scores: torch.dtype = SCORES,
) -> Demand:
    """What a model with `slots` rows takes; `loaded`: its weights are there already; `scores`: see `load`.

    Raises ArgumentError for a context longer than the checkpoint's.
    """
    costs = costs_of(spec, dtype, device, scores)
    memory = memory_of(device, costs.weights, loaded=loaded)
    return Demand(costs, memory, _context(spec.context_length, max_context), slots)


def _context(limit: int, asked: int | None) -> int:
    if asked is None:
        return limit
    if not 1 <= asked <= limit:
        raise ArgumentError(f"max_context must be from 1 to {limit} (the checkpoint's limit), not {asked}")
    return asked
