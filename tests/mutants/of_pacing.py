"""Bugs of rollback: who may drop drafted tokens, and where a draft is cut."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_REFUSED = "engine/test_rollback.py::test_what_is_not_exact_is_refused_in_one_line"

MUTANTS = (
    Mutant(
        "rollback under rejection", "tokens drawn from a law of their own are dropped for what they turned out to be",
        "glimpse.engine.build:_pacer_of", "may_drop=not (rule.needs_law and offered.has_law)", "may_drop=True",
        _REFUSED,
    ),
    Mutant(
        "the constant rolls back anyway", "libraspec gives tokens back that have to be verified",
        "glimpse.pacing.libraspec:LibraSpecPacer.build", "if not context.may_drop:", "if False:",
        _REFUSED,
    ),
    Mutant(
        "the causal form rolls back", "marginal gives tokens back that have to be verified",
        "glimpse.pacing.marginal:MarginalPacer.build", "return MarginalChainPacer(context)",
        "return MarginalChainPacer(__import__('dataclasses').replace(context, may_drop=True))",
        _REFUSED,
    ),
    Mutant(
        "drawn blocks cut", "whole drafts that were drawn from a law are cut under rejection",
        "glimpse.engine.build:_refuse_dropping", "not pacer.foretells if pace.drafts_at_once else", "",
        "engine/test_rollback.py::test_whole_drafts_that_were_drawn_are_verified_whole_or_refused",
    ),
    Mutant(
        "every chain trimmed", "pacers that do not roll back are asked to, whatever the rule",
        "glimpse.engine.phases:PhasePlanner.__init__", "chains is not None and chains.rolls_back and",
        "chains is not None and",
        "engine/test_rollback.py::test_who_does_not_roll_back_is_not_asked_to",
    ),
    Mutant(
        "cut at the most hopeful token", "the search goes as far as any token asks, not as far as all allow",
        "glimpse.pacing.libra:farthest", ".min()))", ".max()))",
        "pacing/test_libra.py::test_by_hand[chances4-2]",
    ),
    Mutant(
        "drafting forgotten", "what was spent on drafting does not count when tokens are given back",
        "glimpse.pacing.chain:MarginalChainPacer.trim", "self._prices.spent(rows, drafted)",
        "self._prices.spent(rows, [0] * len(rows))",
        "pacing/test_chain_pacer.py::test_what_is_verified_has_the_highest_rate[0.1]",
    ),
    Mutant(
        "trials given back", "a draft that was made to try drafting again is dropped before it is judged",
        "glimpse.pacing.chain:MarginalChainPacer.trim", "have if self._states[slot].probe.due else len(nodes)",
        "len(nodes)",
        "pacing/test_chain_pacer.py::test_a_trial_is_verified_whole",
    ),
)  # fmt: skip
"""In the order of the table."""
