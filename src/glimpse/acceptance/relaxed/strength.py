"""How far a relaxed rule is relaxed: one number, and what it may be."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, Self

from glimpse.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Strength:
    """The numbers that a rule takes."""

    low: float
    high: float
    usual: float
    """Where none is given."""
    grid: tuple[float, ...]
    """Those that benchmarks go through, from mild to strong."""
    strict: float | None
    """The one at which nothing is relaxed; None where no number does that."""
    below: bool = False
    """Whether `high` itself is too much."""
    whole: bool = False

    def check(self, rule: str, value: float | None) -> float:
        """`value`, or the usual one for None. Raises ArgumentError naming the rule and the legal range."""
        if value is None:
            return self.usual
        inside = self.low <= value <= self.high and not (self.below and value == self.high)
        if math.isnan(value) or not inside or (self.whole and not float(value).is_integer()):
            raise ArgumentError(f"lossy {rule!r} takes {self.wanted}, not {value:g}")
        return value + 0.0  # -0 is 0

    @property
    def wanted(self) -> str:
        """The legal range in words."""
        kind = "a whole number" if self.whole else "a number"
        if math.isinf(self.low):
            return f"{kind}; -inf is strict"
        upper = "" if math.isinf(self.high) else f" {'below' if self.below else 'to'} {self.high:g}"
        return f"{kind} from {self.low:g}{upper}{' on' if not upper else ''}"


@dataclass(frozen=True, slots=True)
class OfStrength(ABC):
    """A relaxed rule: lossy, by one number."""

    strength: float

    name: ClassVar[str]
    strengths: ClassVar[Strength]
    lossless: ClassVar[bool] = False

    @classmethod
    def build(cls, strength: float | None) -> Self:
        """Raises ArgumentError for a strength out of range; None: the usual one."""
        return cls(cls.strengths.check(cls.name, strength))
