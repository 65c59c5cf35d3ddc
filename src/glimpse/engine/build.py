"""Puts an engine together from names and a loaded decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch

from glimpse.acceptance import Acceptance
from glimpse.cache.rows import Rows
from glimpse.drafting import DRAFTERS
from glimpse.drafting.block.adapter import check_there
from glimpse.drafting.block.shipped import adapter_file, shipped_for
from glimpse.drafting.drafter import DraftContext, Target, spines_of
from glimpse.drafting.refresh import check_sets
from glimpse.engine.device.covering import node_bucket
from glimpse.engine.engine import Engine
from glimpse.engine.face import EngineFace
from glimpse.engine.loaded import Loaded
from glimpse.engine.lossy import refuse_lossy_drafter, rule_of
from glimpse.engine.options import EngineOptions
from glimpse.engine.parts import Parts
from glimpse.engine.riding import BlockDraws
from glimpse.errors import ArgumentError
from glimpse.model.tokenizer import Tokenizer
from glimpse.pacing import PACERS
from glimpse.pacing.costs import ON_CPU, ON_GPU, StepCosts
from glimpse.pacing.pacer import PaceContext, Pacer
from glimpse.pacing.riding import GroupPricer
from glimpse.pacing.sentence_ends import sentence_ends
from glimpse.pacing.spine import SpinePacer
from glimpse.sampling.noise import Role
from glimpse.sampling.pipeline import Sampler


def check_names(options: EngineOptions) -> None:
    """Raises ArgumentError for a drafter, pacer or acceptance rule that nobody offers, before anything is loaded."""
    DRAFTERS.get(options.drafter)
    PACERS.get(options.paced_by)
    rule_of(options)
    if options.refresh_sets is not None:
        check_sets(options.refresh_sets)


def refuse_unused(options: EngineOptions) -> None:
    """Raises ArgumentError for an option that the drafter asked for would never read, and for an adapter that is not
    there."""
    drafter = DRAFTERS.get(options.drafter)
    if options.draft_tokens and not drafter.drafts:
        raise ArgumentError(
            f"draft_tokens {options.draft_tokens} means nothing to drafter {options.drafter!r}; leave it out"
        )
    for name in ("budget", "budget_floor"):
        if getattr(options, name) is not None and not (drafter.needs_forward or drafter.recalls):
            raise ArgumentError(
                f"{name} {getattr(options, name)} means nothing to drafter {options.drafter!r}, which reads no cache; "
                "leave it out, or ask for drafter 'sparse'"
            )
    for name in ("refresh_sets", "refresh_layer"):
        if getattr(options, name) is not None and not drafter.refreshes:
            raise ArgumentError(
                f"{name} {getattr(options, name)!r} means nothing to drafter {options.drafter!r}, which has no refresh "
                "layer; leave it out, or ask for drafter 'refresh'"
            )

    for name in ("adapter", "block_mode"):
        if getattr(options, name) is not None and not drafter.takes_adapter:
            raise ArgumentError(
                f"{name} {getattr(options, name)!r} means nothing to drafter {options.drafter!r}; leave it out, or ask "
                "for drafter 'block' or 'auto'"
            )
    if options.block_mode is not None and options.adapter is None and not drafter.needs_adapter:
        raise ArgumentError(
            f"block_mode {options.block_mode!r} means nothing without an adapter; give the file that glimpse train "
            "block made"
        )
    if options.adapter is not None:
        check_there(adapter_file(options.adapter))
    _refuse_pacer(drafter, options)
    _refuse_store(drafter, options)


def _refuse_pacer(drafter: Any, options: EngineOptions) -> None:
    paces = PACERS.get(options.paced_by).paces
    if drafter.paced_by not in (None, options.paced_by) or paces not in (None, options.drafter):
        raise ArgumentError(
            f"pacer {options.pacer!r} does not go with drafter {options.drafter!r}; leave it out for the drafter's own"
        )


def _refuse_dropping(pace: PaceContext, pacer: Pacer, options: EngineOptions) -> None:
    """Where all that was drawn has to be verified: whole drafts are trimmed unless the pacer foretells, chains where it
    rolls back."""
    drops = not pacer.foretells if pace.drafts_at_once else pacer.rolls_back
    if drops and not pace.may_drop:
        raise ArgumentError(
            f"acceptance {options.lossy or options.acceptance!r} holds only if all that drafter {options.drafter!r} "
            f"drew is verified, and pacer {options.paced_by!r} drops some of it; use acceptance 'coupled' or "
            "'matched', or pacer 'fixed'"
        )


def _refuse_store(drafter: Any, options: EngineOptions) -> None:
    if options.suffix_store is not None and not drafter.stores:
        raise ArgumentError(
            f"suffix_store {options.suffix_store!r} means nothing to drafter {options.drafter!r}, which matches in no "
            "store; leave it out, or ask for drafter 'suffix', 'racer+suffix' or 'auto'"
        )
    if options.suffix_store == "":
        raise ArgumentError("suffix_store '' is no name; give it one character at least, or leave it out")
    if options.suffix_store_tokens is not None and options.suffix_store is None:
        raise ArgumentError(
            f"suffix_store_tokens {options.suffix_store_tokens} means nothing without suffix_store; name a store too"
        )


def refuse_bitwise(options: EngineOptions, device: torch.device) -> None:
    """Raises ArgumentError for exact "bitwise" where it cannot be had. Asked before a model is loaded, too."""
    if options.exact == "bitwise" and (device.type != "cuda" or find_spec("triton") is None):
        raise ArgumentError(
            "exact 'bitwise' needs a CUDA GPU and Triton: a CPU's products round otherwise with the number of rows; "
            "exact 'tokens' differs from plain decoding in near ties only"
        )


def build_engine(loaded: Loaded, options: EngineOptions) -> EngineFace:
    """An engine over what is loaded: on a GPU the device engine, else the eager one.

    Raises ArgumentError for unknown names and for parts that do not go together; GlimpseError for a plug-in that is no
    drafter or pacer, and where the engine's state does not fit the memory.
    """
    graphs = loaded.pool.device.type == "cuda" and find_spec("triton") is not None
    options = replace(with_adapter(loaded, options), batch_graphs=graphs and loaded.slots > 1)
    parts = make_parts(loaded, options)
    refuse_bitwise(options, loaded.pool.device)
    if not graphs:
        return Engine(parts, options)
    from glimpse.engine.device.build import device_engine  # imports triton

    return device_engine(parts, options)


def with_adapter(loaded: Loaded, options: EngineOptions) -> EngineOptions:
    """With the adapter's file; where one is needed and none was named, the one that comes with Glimpse for this model.

    Raises ArgumentError where there is none for it.
    """
    if options.adapter is not None:
        return replace(options, adapter=str(adapter_file(options.adapter)))
    if DRAFTERS.get(options.drafter).needs_adapter:
        return replace(options, adapter=str(shipped_for(loaded.checkpoint.fingerprint)))
    return options


def make_parts(loaded: Loaded, options: EngineOptions) -> Parts:
    """What an engine over what is loaded is composed of. Raises as `build_engine`."""
    offered, rule = _compatible(options)
    costs, vocab, tokenizer = _costs_of(loaded), loaded.checkpoint.spec.vocab_size, loaded.checkpoint.tokenizer
    trees = offered.gives_tree and options.exact != "bitwise"
    padded = node_bucket if trees and loaded.pool.device.type == "cuda" else None
    pacer = _pacer_of(options, offered, rule, costs, tokenizer, padded, on_gpu=loaded.pool.device.type != "cpu")
    sampler = Sampler(loaded.slots, vocab, tokens=tokenizer.vocab_size, grammars=loaded.grammars)
    drafter = offered.build(_draft_context(loaded, options, BlockDraws(sampler, rule), pacer))
    pacer.attach(drafter)
    most = max(1, pacer.most, drafter.budget if drafter.gives_tree else 0)
    return Parts(
        decoder=loaded.checkpoint.decoder,
        pool=loaded.pool,
        rows=Rows(loaded.slots, loaded.context + most + 1, most),
        sampler=sampler,
        drafter=drafter,
        pacer=pacer,
        acceptance=rule,
        costs=costs,
        prefixes=loaded.prefixes,
        budget=options.recall,
        eos_token_ids=loaded.checkpoint.spec.eos_token_ids,
        lock=loaded.lock,
        pricer=GroupPricer(costs, options.block_mode or "auto"),
    )


def _compatible(options: EngineOptions) -> tuple[Any, Acceptance]:
    """The drafter that is offered and the acceptance rule. Raises ArgumentError where they do not go together."""
    offered = DRAFTERS.get(options.drafter)
    _refuse_pacer(offered, options)
    rule = rule_of(options)
    refuse_lossy_drafter(options, offered.lossless)
    if offered.gives_tree and not rule.trees:
        raise ArgumentError(
            f"acceptance {rule.name!r} takes chains, and drafter {options.drafter!r} gives trees; "
            "'coupled' and 'matched' take them"
        )
    return offered, rule


def _costs_of(loaded: Loaded) -> StepCosts:
    """What steps cost, as far as it was measured before."""
    spec, decoder = loaded.checkpoint.spec, loaded.checkpoint.decoder
    weights, position = spec.step_weight_bytes(decoder.dtype), spec.kv_bytes_per_token(decoder.dtype)
    shares = ON_GPU if decoder.device.type == "cuda" else ON_CPU
    return StepCosts(weights, position, start=loaded.step_costs, shares=shares)


def _pacer_of(
    options: EngineOptions, offered: Any, rule: Acceptance, costs: StepCosts, tokenizer: Tokenizer,
    padded: Callable[[int], int] | None, *, on_gpu: bool,
) -> Pacer:  # fmt: skip
    """The pacer asked for, with one for branches around it where spines have any."""
    pace = PaceContext(
        costs=costs,
        draft_tokens=options.draft_tokens,
        drafts_at_once=not offered.needs_forward,
        draft_positions=options.recall.positions,
        can_draft=offered.drafts,
        branches=spines_of(offered) is not None,
        trees=offered.gives_tree,
        on_gpu=on_gpu,
        padded=padded,
        may_drop=not (rule.needs_law and offered.has_law),
        same_noise=rule.draft_role is Role.TARGET,
        ends=lambda: sentence_ends(tokenizer),
    )
    pacer: Pacer = PACERS.get(options.paced_by).build(pace)
    _refuse_dropping(pace, pacer, options)
    # One that foretells verifies all that it is given.
    if pace.branches and not pacer.foretells and not isinstance(pacer, SpinePacer):
        pacer = SpinePacer(pacer, pace)
    return pacer


def _draft_context(loaded: Loaded, options: EngineOptions, draw: BlockDraws, pacer: Pacer) -> DraftContext:
    """What the drafter is built from; a tree has as many nodes as its pacer takes."""
    return DraftContext(
        loaded.pool,
        options.recall,
        options.refresh_sets,
        options.refresh_layer,
        nodes=pacer.most,
        priced=not pacer.foretells,
        store=loaded.store(options.suffix_store, options.suffix_store_tokens),
        target=Target(loaded.checkpoint.decoder, loaded.checkpoint.fingerprint, draw, options.adapter),
        chains_only=options.exact == "bitwise",
    )
