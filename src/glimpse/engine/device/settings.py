"""How rows on the device draft."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from glimpse.cache.recall import RecallBudget


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """How a batch drafts."""

    budget: RecallBudget
    decay: float = 0.5
    """What is left of a position's importance after a round (docs/performance-gpu.md)."""
    bitwise: bool = False
    """A token's result is the same bits whoever shares its batch, and however many are verified with it (`bitwise`)."""
    window: int = 0
    """Instead of the kernels' statistic, the paper's exact one over that many accepted queries (16 there): slow."""


class Learn(IntEnum):
    """What a verification does about the recall sets."""

    NOTHING = 0
    """They stay as they are; from their base on everything is read, so drafts stay possible."""
    ADD = 1
    """Its importance is added to what is left of the earlier rounds', and the sets are chosen anew."""
    ANEW = 2
    """Its importance alone counts: after steps that learned nothing, earlier scores have holes."""
