"""The policies that a filled batch is decoded by, in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glimpse.drafting import DRAFTERS
from glimpse.engine.options import EngineOptions
from glimpse.errors import ArgumentError

NONE, FLEET, FIXED = "none", "fleet", "fixed"
_SHARE = 0.001
"""Of the context: the floor alone says how much a draft reads."""
_OPTIONS: dict[str, dict[str, Any]] = {
    NONE: {"drafter": "none", "pacer": "fixed"},
    "synchronised": {"drafter": "sparse", "pacer": "synchronised"},
    "feedback": {"drafter": "sparse", "pacer": "feedback"},
    FIXED: {"drafter": "sparse", "pacer": "fixed"},
    FLEET: {"drafter": "sparse", "pacer": "fleet"},
    "refresh": {"drafter": "refresh", "pacer": "fleet"},
    "entropy": {"drafter": "sparse", "pacer": "entropy"},
    "block": {"drafter": "block"},
    "block-parallel": {"drafter": "block", "block_mode": "parallel"},
    "block-sequential": {"drafter": "block", "block_mode": "sequential"},
}
USUAL = (NONE, "synchronised", "feedback", FIXED, FLEET, "refresh")
"""Where none are asked for; `refresh` only where it runs as graphs."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One policy. `fixed` needs a draft length, all others have their own."""

    name: str
    length: int | None = None

    @property
    def label(self) -> str:
        """For tables."""
        return self.name if self.length is None else f"{self.name} {self.length}"

    def options(self, budget: int, adapter: str | None = None) -> EngineOptions:
        """How its engine decodes; a draft reads `budget` positions, or is made by `adapter`.

        Prompts are kept in the cache by name, so that runs differ in nothing else.
        """
        options = EngineOptions(prefix_reuse=False, draft_tokens=self.length, **_OPTIONS[self.name])
        offered = DRAFTERS.get(options.drafter)
        if offered.takes_adapter:
            return options.changed(adapter=adapter)
        return options.changed(budget=_SHARE, budget_floor=budget) if offered.needs_forward else options


def drafters_of(names: Sequence[str]) -> list[str]:
    """Who drafts in each of the arms."""
    return [_OPTIONS[name]["drafter"] for name in names]


def arms_named(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each once, `none` first, which all are measured against. Raises ArgumentError for an unknown one."""
    for name in names:
        if name not in _OPTIONS:
            raise ArgumentError(f"unknown arm {name!r}; known: {', '.join(_OPTIONS)}")
    return tuple(dict.fromkeys((NONE, *names)))
