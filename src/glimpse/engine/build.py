"""Puts an engine together from names and a loaded decoder."""

from __future__ import annotations

from dataclasses import dataclass

from glimpse import acceptance
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.prefix import PrefixStore
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import Rows
from glimpse.drafting import DRAFTERS
from glimpse.drafting.drafter import DraftContext
from glimpse.engine.engine import Engine, Parts
from glimpse.errors import ArgumentError
from glimpse.model import Checkpoint, Decoder
from glimpse.pacing import PACERS
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.pacer import PaceContext
from glimpse.sampling.pipeline import Sampler

PAGE_SIZE = 16


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to decode. Names are looked up in the registries; an unknown one lists the known ones."""

    drafter: str = "lookup"
    pacer: str = "entropy"
    acceptance: str = "coupled"
    draft_tokens: int | None = None
    """Draft length of `fixed`, the longest of other pacers; None leaves it to the pacer."""
    budget: float = 0.1
    """Share of the context that a sparse draft reads."""

    def __post_init__(self) -> None:
        if self.draft_tokens is not None and not 0 <= self.draft_tokens <= 256:
            raise ArgumentError(f"draft_tokens must be from 0 to 256, not {self.draft_tokens}")


def make_pool(decoder: Decoder, tokens: int, page_size: int = PAGE_SIZE) -> PagePool:
    """A pool for at least `tokens` positions of the decoder's shape, in its dtype."""
    spec = decoder.spec
    shape = CacheShape(spec.layers, spec.kv_heads, spec.head_dim)
    return PagePool(shape, -(-tokens // page_size), page_size, decoder.dtype, decoder.device)


def build_engine(
    checkpoint: Checkpoint, pool: PagePool, prefixes: PrefixStore, slots: int, context: int, options: EngineOptions
) -> Engine:
    """An engine of at most `slots` running requests of at most `context` tokens, over a pool that others may share."""
    decoder, spec = checkpoint.decoder, checkpoint.spec
    budget = RecallBudget(share=options.budget)
    drafter = DRAFTERS.get(options.drafter).build(DraftContext(pool, options.budget))
    rule = acceptance.resolve(options.acceptance)
    if drafter.gives_tree and not rule.trees:
        raise ArgumentError(f"acceptance {options.acceptance!r} judges chains, but drafter {options.drafter!r} gives trees")
    kv_bytes = spec.kv_bytes_per_token(decoder.dtype)
    costs = StepCosts(spec.weight_bytes(decoder.dtype), kv_bytes)
    pacer = PACERS.get(options.pacer).build(
        PaceContext(
            costs=costs,
            draft_tokens=options.draft_tokens,
            drafts_at_once=not drafter.needs_forward,
            draft_positions=budget.positions,
            can_draft=options.drafter != "none",
        )
    )
    most = max(1, pacer.most)
    parts = Parts(
        decoder=decoder,
        pool=pool,
        rows=Rows(slots, context + most + 1, most),
        sampler=Sampler(slots, spec.vocab_size, tokens=checkpoint.tokenizer.vocab_size),
        drafter=drafter,
        pacer=pacer,
        acceptance=rule,
        costs=costs,
        prefixes=prefixes,
        budget=budget,
        eos_token_ids=spec.eos_token_ids,
    )
    return Engine(parts)
