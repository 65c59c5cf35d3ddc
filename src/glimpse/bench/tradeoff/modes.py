"""The modes that are set beside one another, as they are typed: plain, DRAFTER[@N], slowfast, RULE[:STRENGTH][@N]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glimpse.acceptance.lossy import LOSSY, Lossy, LossyRule
from glimpse.drafting import DRAFTERS
from glimpse.errors import ArgumentError

PLAIN, TRUSTED, SIBLING = "plain", "slowfast", "slowfast-exact"


@dataclass(frozen=True, slots=True)
class Mode:
    """One way of decoding."""

    name: str
    drafter: str
    lossy: str | None = None
    drafts: int | None = None

    @property
    def key(self) -> str:
        """For the journal."""
        return self.name

    @property
    def rule(self) -> LossyRule | None:
        """The lossy rule; None for an exact mode."""
        return None if self.lossy is None else Lossy.parse(self.lossy).rule

    def options(self, budget: int) -> dict[str, Any]:
        """For `LLM.variant`; `budget` positions are read by sparse drafts."""
        pacer = None if self.drafter == "slowfast" else "fixed"
        reads = (1e-9, budget) if DRAFTERS.get(self.drafter).needs_forward else (None, None)
        return {
            "drafter": self.drafter, "pacer": pacer, "draft_tokens": self.drafts, "acceptance": None,
            "lossy": self.lossy, "budget": reads[0], "budget_floor": reads[1],
        }  # fmt: skip


def parse_mode(text: str, drafts: int) -> Mode:
    """A mode as it is typed; `drafts` where it names no length. Raises ArgumentError naming what is wrong."""
    text = text.strip()
    base, at, length = text.partition("@")
    if at and not (length.isdigit() and 1 <= int(length) <= 256):
        raise ArgumentError(f"mode {text!r}: {length!r} is no draft length from 1 to 256")
    count = int(length) if length else drafts
    if base == PLAIN:
        return Mode(PLAIN, "none")
    if base == SIBLING:
        return Mode(text, "slowfast", None, int(length) if length else None)
    if base.partition(":")[0] in LOSSY.names():
        lossy = Lossy.parse(base)
        drafter = lossy.rule.usual_drafter if base == TRUSTED else "sparse"
        own = None if base == TRUSTED and not length else count
        return Mode(str(lossy) if own in (None, drafts) else f"{lossy}@{count}", drafter, str(lossy), own)
    if base not in DRAFTERS.names():
        known = ", ".join((PLAIN, SIBLING, *LOSSY.names(), *DRAFTERS.names()))
        raise ArgumentError(f"mode {text!r} is none of RULE[:STRENGTH][@DRAFTS] and DRAFTER[@DRAFTS]; known: {known}")
    if not DRAFTERS.get(base).drafts:
        raise ArgumentError(f"mode {text!r} drafts nothing; {PLAIN!r} is there without being asked for")
    return Mode(f"{base}@{count}", base, None, count)


def usual_modes(drafts: Sequence[int]) -> list[Mode]:
    """Every rule over its grid at the middle draft length, what is lossless beside it, and one rule at all lengths."""
    middle = drafts[len(drafts) // 2]
    typed = [PLAIN, *(f"sparse@{count}" for count in drafts), SIBLING, TRUSTED]
    for name in LOSSY.names():
        strengths = getattr(LOSSY.get(name), "strengths", None)
        typed += [f"{name}:{value:g}" for value in strengths.grid] if strengths else []
    typed += [f"cactus:1@{count}" for count in drafts if count != middle]
    return [parse_mode(text, middle) for text in typed]
