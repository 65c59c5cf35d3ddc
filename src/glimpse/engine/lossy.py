"""Which lossy mode goes with which other options, and the rule that an engine is to have."""

from __future__ import annotations

from glimpse import acceptance
from glimpse.acceptance import Acceptance
from glimpse.acceptance.lossy import LOSSY, Lossy, LossyRule
from glimpse.acceptance.rule import trusts
from glimpse.drafting import DRAFTERS
from glimpse.engine.options import EngineOptions
from glimpse.errors import ArgumentError
from glimpse.registry import Registry
from glimpse.sampling import checks

USUAL_DRAFTER, WITH_OTHERS = "auto", "lookup"
"""Who drafts where nobody is named; and in his place, with a pacer or a rule that he does not go with."""


def usual_drafter(lossy: str | None = None, pacer: str | None = None, rule: str | None = None) -> str:
    """Who drafts where nobody is named. Raises ArgumentError for an unknown lossy mode or acceptance rule."""
    if lossy is not None:
        return Lossy.parse(checks.text("lossy", lossy)).rule.usual_drafter
    own: str = DRAFTERS.get(USUAL_DRAFTER).paced_by
    branches = rule is None or acceptance.resolve(checks.text("acceptance", rule)).trees
    return USUAL_DRAFTER if branches and pacer in (None, own) else WITH_OTHERS


def rule_of(options: EngineOptions) -> Acceptance:
    """The acceptance rule asked for: an exact one, unless a lossy mode is. Raises ArgumentError as `check_lossy`."""
    if options.lossy is None:
        return acceptance.resolve(options.accepted_by)
    mode = Lossy.parse(options.lossy)
    rule = mode.rule
    _check_drafter(mode, rule, options)
    return rule


def _check_drafter(mode: Lossy, rule: LossyRule, options: EngineOptions) -> None:
    """Raises ArgumentError where the drafter gives this rule nothing to go by."""
    drafter = DRAFTERS.get(options.drafter)
    if not drafter.drafts:
        raise ArgumentError(f"lossy '{mode}' is about drafts, and drafter {options.drafter!r} drafts nothing")
    if trusts(rule) and options.drafter != rule.usual_drafter:
        raise ArgumentError(f"lossy '{mode}' goes with drafter {rule.usual_drafter!r} alone, not {options.drafter!r}")
    pacer = getattr(rule, "paced_by", options.paced_by)
    if pacer != options.paced_by:
        raise ArgumentError(f"lossy '{mode}' goes with pacer {pacer!r} alone, not {options.paced_by!r}")
    if drafter.gives_tree and not rule.trees:
        raise ArgumentError(
            f"lossy '{mode}' takes chains, and drafter {options.drafter!r} gives trees; "
            f"{_named(LOSSY, 'trees')} take them"
        )
    if rule.needs_law and not drafter.has_law:
        raise ArgumentError(
            f"lossy '{mode}' needs the law that drafts were drawn from, and drafter {options.drafter!r} has none; "
            f"{_named(DRAFTERS, 'has_law')} have one"
        )


def _named(registry: Registry, flag: str) -> str:
    """Those of a registry that have a flag."""
    return ", ".join(repr(name) for name in registry.names() if getattr(registry.get(name), flag, False))


def refuse_lossy_drafter(options: EngineOptions, lossless: bool) -> None:
    """Raises ArgumentError for a drafter that is lossy by itself where no lossy mode was asked for."""
    if options.lossy is None and not lossless:
        raise ArgumentError(f"drafter {options.drafter!r} says that it is lossy; ask for a lossy mode to use it")
