"""Which drafter to use, and why, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, replace

from glimpse.planning.plan import Plan
from glimpse.planning.speedup import Acceptance

TYPICAL = Acceptance(0.94, 0.86)
"""Sparse drafts of the demo model, T=0.7, 512 of 7,000 positions; a scouting run, no file kept."""
WORTH = 1.1
"""Below this expected speedup a sparse drafter is not worth its trouble: predictions are off by up to a tenth."""
LAUNCHES = 0.1
"""Where a draft step costs so much more of a plain one than its bytes do, launches are what keeps it dear."""
LOOKUP_WIDTH = 2.5
"""Up to this cost of verifying 8 drafts, text that repeats itself pays for looking drafts up."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The drafter to begin with."""

    drafter: str
    """"sparse", "lookup" or "none"."""
    why: str
    before: str = ""
    """What must be changed before anything can run; "" where it fits, or where the memory is not known."""


def advise(plan: Plan) -> Advice:
    """Sparse drafts where the cache dominates a step, lookup where verifying is cheap, else none."""
    found = _advised(plan)
    return found if plan.memory.fits is not False else replace(found, before=_shrink(plan))


def _advised(plan: Plan) -> Advice:
    typical = plan.sparse(TYPICAL)
    if typical.speedup >= WORTH:
        return Advice("sparse", _sparse(plan, typical.drafted, typical.speedup))
    if plan.verify_8 <= LOOKUP_WIDTH:
        return Advice("lookup", _lookup(plan))
    return Advice("none", _none(plan))


def _shrink(plan: Plan) -> str:
    memory, ways = plan.memory, []
    if memory.largest_batch:
        ways.append(f"--batch to at most {memory.largest_batch:,}")
    if memory.longest_context:
        ways.append(f"--context to at most {memory.longest_context:,}")
    if not ways:
        return "this does not fit: ask about far less context and batch, a smaller model or dtype, or a larger device"
    return f"this does not fit: shrink {' or '.join(ways)}, and ask again; what follows could not run as it is"


def _sparse(plan: Plan, drafted: int, speedup: float) -> str:
    return (
        f"the cache is {plan.r:.1f} times the weights that a step reads, and a draft step over {plan.share:.0%} of it "
        f"costs {plan.c:.2f} of a plain step. At the acceptance measured on book text ({TYPICAL.first:g} falling to "
        f"{TYPICAL.last:g}) drafts of {drafted} give {speedup:.2f}x; {_break_even(plan)}. What lookup gives holds "
        "for text that repeats its prompt or itself: elsewhere little of what it finds is accepted."
    )


def _lookup(plan: Plan) -> str:
    needed = max(plan.verify_8 - 1, 0)
    return (
        f"a draft step over {plan.share:.0%} of the cache still costs {plan.c:.2f} of a plain step ({_kept(plan)}): "
        f"{_break_even(plan)}. Verifying 8 looked-up tokens costs {plan.verify_8:.2f} plain steps, so lookup pays "
        f"where more than {needed:.1f} of 8 are accepted: text that repeats its prompt or itself (documents, code, "
        "edits)."
    )


def _none(plan: Plan) -> str:
    return (
        f"verifying 8 drafts costs {plan.verify_8:.2f} plain steps, and a sparse draft step {plan.c:.2f} of one; "
        f"{_break_even(plan)}. Drafting would slow this down; it pays where a plain step waits for memory."
    )


def _kept(plan: Plan) -> str:
    """Why a draft step is not much cheaper: the weights, or what no step goes without."""
    if plan.c - plan.c_bytes < LAUNCHES:
        return f"it reads all the weights, and the cache is {plan.r:.2f} times as much"
    return f"{plan.c_bytes:.2f} by bytes; the rest is launches, which every step has"


def _break_even(plan: Plan) -> str:
    if plan.break_even is None:
        return "sparse drafts never pay here"
    return f"sparse drafts pay from an acceptance of {plan.break_even:.2f} on"
