"""Puts an engine together from names and a loaded decoder."""

from __future__ import annotations

from glimpse import acceptance
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import Rows
from glimpse.drafting import DRAFTERS
from glimpse.drafting.drafter import DraftContext
from glimpse.engine.engine import Engine
from glimpse.engine.loaded import Loaded
from glimpse.engine.options import EngineOptions
from glimpse.engine.parts import Parts
from glimpse.errors import ArgumentError
from glimpse.pacing import PACERS
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.pacer import PaceContext
from glimpse.sampling.pipeline import Sampler


def check_names(options: EngineOptions) -> None:
    """Raises ArgumentError for a drafter, pacer or acceptance rule that nobody offers, before anything is loaded."""
    DRAFTERS.get(options.drafter)
    PACERS.get(options.pacer)
    acceptance.resolve(options.acceptance)


def build_engine(loaded: Loaded, options: EngineOptions) -> Engine:
    """An engine over what is loaded. Raises ArgumentError for unknown names and for parts that do not go together."""
    pool, spec, decoder = loaded.pool, loaded.checkpoint.spec, loaded.checkpoint.decoder
    budget = RecallBudget(share=options.budget, floor=options.budget_floor)
    drafter = DRAFTERS.get(options.drafter).build(DraftContext(pool, budget))
    rule = acceptance.resolve(options.acceptance)
    if drafter.gives_tree and not rule.trees:
        raise ArgumentError(
            f"acceptance {options.acceptance!r} judges chains, but drafter {options.drafter!r} gives trees"
        )
    kv_bytes = spec.kv_bytes_per_token(decoder.dtype)
    costs = StepCosts(spec.weight_bytes(decoder.dtype), kv_bytes, start=loaded.step_costs)
    pacer = PACERS.get(options.pacer).build(
        PaceContext(
            costs=costs,
            draft_tokens=options.draft_tokens,
            drafts_at_once=not drafter.needs_forward,
            draft_positions=budget.positions,
            can_draft=drafter.drafts,
        )
    )
    most = max(1, pacer.most)
    parts = Parts(
        decoder=decoder,
        pool=pool,
        rows=Rows(loaded.slots, loaded.context + most + 1, most),
        sampler=Sampler(loaded.slots, spec.vocab_size, tokens=loaded.checkpoint.tokenizer.vocab_size),
        drafter=drafter,
        pacer=pacer,
        acceptance=rule,
        costs=costs,
        prefixes=loaded.prefixes,
        budget=budget,
        eos_token_ids=spec.eos_token_ids,
    )
    return Engine(parts, options)
