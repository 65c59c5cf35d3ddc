"""How an engine decodes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from glimpse.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to decode. Names are looked up in the registries; an unknown one lists the known ones."""

    drafter: str = "lookup"
    pacer: str = "entropy"
    acceptance: str = "coupled"
    draft_tokens: int | None = None
    """Draft length of `fixed`, the longest of other pacers; None leaves it to the pacer."""
    budget: float = 0.1
    """Share of the context that a sparse draft reads."""
    budget_floor: int = 256
    """A sparse draft reads at least so many positions."""

    def __post_init__(self) -> None:
        if self.draft_tokens is not None and not 0 <= self.draft_tokens <= 256:
            raise ArgumentError(f"draft_tokens must be from 0 to 256, not {self.draft_tokens}")

    def changed(self, **options: Any) -> EngineOptions:
        """With other values for some of them. Raises ArgumentError for one that does not exist."""
        known = [field.name for field in fields(self)]
        for name in options:
            if name not in known:
                raise ArgumentError(f"unknown option {name!r}; known: {', '.join(known)}")
        return replace(self, **options)
