"""Which drafter to use, and why, in plain words."""

from __future__ import annotations

from dataclasses import dataclass

from glimpse.planning.plan import Plan
from glimpse.planning.speedup import Acceptance

TYPICAL = Acceptance(0.94, 0.86)
"""Sparse drafts of the demo model, T=0.7, 512 of 7,000 positions; a scouting run, no file kept."""
WORTH = 1.1
"""Below this expected speedup a sparse drafter is not worth its trouble: real steps lie above their floors."""
LOOKUP_WIDTH = 2.0
"""Up to this cost of verifying 8 drafts, text that repeats itself at all pays for looking drafts up."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The drafter to begin with."""

    drafter: str
    """"sparse", "lookup" or "none"."""
    why: str


def advise(plan: Plan) -> Advice:
    """Sparse drafts where the cache dominates a step, lookup where verifying is cheap, else none."""
    typical = plan.sparse(TYPICAL)
    if typical.speedup >= WORTH:
        return Advice("sparse", _sparse(plan, typical.drafted, typical.speedup))
    if plan.verify_8 <= LOOKUP_WIDTH:
        return Advice("lookup", _lookup(plan))
    return Advice("none", _none(plan))


def _sparse(plan: Plan, drafted: int, speedup: float) -> str:
    return (
        f"the cache is {plan.r:.1f} times the weights that a step reads, and a draft step over {plan.share:.0%} of it "
        f"costs {plan.c:.2f} of a plain step. At the acceptance measured on book text ({TYPICAL.first:g} falling to "
        f"{TYPICAL.last:g}) drafts of {drafted} give {speedup:.2f}x; {_break_even(plan)}."
    )


def _lookup(plan: Plan) -> str:
    needed = max(plan.verify_8 - 1, 0)
    return (
        f"a draft step over {plan.share:.0%} of the cache still costs {plan.c:.2f} of a plain step, for it reads all "
        f"the weights (the cache is {plan.r:.2f} times as much): {_break_even(plan)}. Verifying 8 looked-up tokens "
        f"costs {plan.verify_8:.2f} plain steps, so lookup pays where more than {needed:.1f} of 8 are accepted: text "
        "that repeats its prompt or itself (documents, code, edits)."
    )


def _none(plan: Plan) -> str:
    return (
        f"the device is busy computing already: verifying 8 drafts costs {plan.verify_8:.2f} plain steps, and a sparse "
        f"draft step {plan.c:.2f}; {_break_even(plan)}. Drafting would slow this batch down; a smaller one has room."
    )


def _break_even(plan: Plan) -> str:
    if plan.break_even is None:
        return "sparse drafts never pay here"
    return f"sparse drafts pay from an acceptance of {plan.break_even:.2f} on"
