"""Lossy modes by name: the only way to a rule that is not exact. `RULE` or `RULE:STRENGTH`, or `slowfast`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast

from glimpse.acceptance.rule import Acceptance
from glimpse.errors import ArgumentError
from glimpse.registry import Registry

_RELAXED = "glimpse.acceptance.relaxed"
LOSSY = Registry(
    "glimpse.lossy",
    {
        "slowfast": f"{_RELAXED}.trust:Trust",
        "cactus": f"{_RELAXED}.raising:Cactus",
        "mentored": f"{_RELAXED}.raising:Mentored",
        "r-fuzzy": f"{_RELAXED}.divergence:ResidualFuzzy",
        "fuzzy": f"{_RELAXED}.divergence:Fuzzy",
        "cascade-opt": f"{_RELAXED}.cascades:CascadeOpt",
        "cascade-tok": f"{_RELAXED}.cascades:CascadeTok",
        "ensemble": f"{_RELAXED}.mixing:Ensemble",
        "contrastive": f"{_RELAXED}.mixing:Contrastive",
        "typical": f"{_RELAXED}.walks:Typical",
        "top-k": f"{_RELAXED}.walks:TopK",
        "entropy-gated": f"{_RELAXED}.walks:EntropyGated",
    },
)


class LossyRule(Acceptance, Protocol):
    """A rule that a lossy mode stands for."""

    usual_drafter: str
    """Who drafts where nobody is named."""


@dataclass(frozen=True, slots=True)
class Lossy:
    """A lossy mode as it was asked for."""

    name: str
    strength: float | None

    @classmethod
    def parse(cls, text: str) -> Lossy:
        """Raises ArgumentError for a name that nobody offers (listing the known ones), or a strength that is no
        number or out of range."""
        name, colon, number = text.partition(":")
        LOSSY.get(name)
        try:
            mode = cls(name, float(number) if colon else None)
        except ValueError:
            known = f"{name} or {name}:NUMBER" if hasattr(LOSSY.get(name), "strengths") else name
            raise ArgumentError(f"lossy {text!r}: {number!r} is no number; write {known}") from None
        rule = mode.rule
        return cls(name, getattr(rule, "strength", None))

    @property
    def rule(self) -> LossyRule:
        """The rule, built anew."""
        return cast(LossyRule, LOSSY.get(self.name).build(self.strength))

    def __str__(self) -> str:
        if self.strength is None:
            return self.name
        short = f"{self.strength:g}"
        return f"{self.name}:{short if float(short) == self.strength else self.strength}"
