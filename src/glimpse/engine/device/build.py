"""Puts the engine of a GPU together."""

from __future__ import annotations

from dataclasses import replace

from glimpse.acceptance.rule import trusts
from glimpse.engine.device.block_state import BlockState
from glimpse.engine.device.core import Core
from glimpse.engine.device.counted import CountedEngine
from glimpse.engine.device.eligible import LONGEST, flex_of, slowfast_of, why_not_engine, why_not_request
from glimpse.engine.device.engine import DeviceEngine
from glimpse.engine.device.relaxed import relaxed_of
from glimpse.engine.device.settings import RoundSettings
from glimpse.engine.device.state import DeviceRecall, DeviceRows
from glimpse.engine.device.tree_state import TreeState
from glimpse.engine.device.trust_state import TrustState
from glimpse.engine.face import EngineFace
from glimpse.engine.memory import within_memory
from glimpse.engine.options import EngineOptions
from glimpse.engine.parts import Parts
from glimpse.errors import ArgumentError
from glimpse.pacing.costs import StepCosts

_ADVICE = "the rows' state does not fit; lower max_batch_size or max_context"


def device_engine(parts: Parts, options: EngineOptions) -> EngineFace:
    """The device engine over these parts, with an eager one inside; an eager one alone for what only that can do.

    Raises GlimpseError where the rows' state does not fit the memory, and ArgumentError where the bitwise mode is asked
    for and cannot be had.
    """
    reason, bitwise = why_not_engine(parts), options.exact == "bitwise"
    if reason is None:
        try:
            core = within_memory(lambda: _core(parts, options), parts.pool.device, _ADVICE)
            return DeviceEngine(parts, _eager(parts, options), core)
        except ArgumentError as error:
            if bitwise:
                raise
            reason = str(error)
    if bitwise:
        raise ArgumentError(f"exact 'bitwise' runs as CUDA graphs only, which rules out: {reason}")
    return CountedEngine(parts, options, lambda request: reason)


def _eager(parts: Parts, options: EngineOptions) -> CountedEngine:
    # Its steps cost something else than graphs: the pacer must not learn of them.
    apart = replace(parts, costs=StepCosts(1, 1))
    return CountedEngine(apart, options, lambda request: why_not_request(request.params) or "")


def _core(parts: Parts, options: EngineOptions) -> Core:
    """Raises ArgumentError for trees, and for masks that ride along, where bits count."""
    bitwise = options.exact == "bitwise"
    if bitwise and parts.drafter.gives_tree:
        # A node is summed up with its siblings' places between it and its ancestors.
        raise ArgumentError(
            f"exact 'bitwise' takes chains, and drafter {parts.drafter.name!r} gives trees; use lookup, sparse or none"
        )
    head = flex_of(parts.drafter)
    if bitwise and head is not None:
        raise ArgumentError(
            f"exact 'bitwise' takes rows alone, and drafter {parts.drafter.name!r} has mask tokens share their "
            "products; use lookup, sparse or none"
        )
    decoder, pool, host, budget = parts.decoder, parts.pool, parts.rows, parts.budget
    spec, device = decoder.spec, decoder.device
    trusted, verifies = slowfast_of(parts), not trusts(parts.acceptance)
    if bitwise and trusted:
        raise ArgumentError(
            "exact 'bitwise' and pacer 'boundary' do not go together yet; use pacer 'fixed' with sparse"
        )
    # A block is as long as its head makes it, whatever a pacer allows: reports and buffers are no wider.
    longest = LONGEST if head is None else min(LONGEST, head.size)
    most = max(1, min(host.max_draft if parts.drafter.gives_tree else parts.pacer.most, longest)) if verifies else 1
    rows = DeviceRows.empty(host.capacity, host.width, most, pool.pages_for(host.width), device)
    recall = None
    if parts.drafter.needs_forward or parts.drafter.in_step:
        places = max(budget.positions(host.width), budget.sinks + budget.recent)
        recall = DeviceRecall.empty(
            spec.layers, host.capacity, spec.heads, spec.kv_heads, host.width, places, device,
            parts.drafter.scores,
        )  # fmt: skip
    core = Core(decoder, pool, rows, recall, RoundSettings(budget, bitwise=bitwise), parts.sampler.vocab)
    core.relaxes = relaxed_of(parts.acceptance)
    if parts.drafter.gives_tree:
        core.trees = TreeState(rows, successors=parts.drafter.wants_successors)
    if trusted and recall:
        core.trust = TrustState(rows, recall, pool.page_size, budget, *trusted, parts.sampler.vocab, verifies=verifies)
    if head is not None:
        # Whatever is drafted, the one verifies so many, with groups wherever a row may end; the other foretells a rule.
        foretold = (parts.pacer.foretells and options.block_mode == "parallel") or parts.pacer.cuts
        core.blocks = BlockState(core, head, ahead=parts.pacer.most if foretold else 0, cuts=parts.pacer.cuts)
    return core
