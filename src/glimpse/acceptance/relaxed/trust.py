"""Slow-Fast Inference's rule: what a fast step drew is output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from glimpse.acceptance.exact import Coupled
from glimpse.acceptance.rule import Accepted, NodeNoise
from glimpse.drafting.drafter import Draft
from glimpse.errors import ArgumentError
from glimpse.sampling.law import Laws
from glimpse.sampling.noise import Role


@dataclass(frozen=True, slots=True)
class Trust:
    """Nothing is verified (arXiv 2603.12038): the engine commits every drafted token in the step that drew it.

    What is left for `accept` are slow steps, which have no draft: the target's own token, drawn as in plain decoding.
    Where a fast step reads the whole context it is a plain step, and the text is that of plain decoding.
    """

    name: ClassVar[str] = "trust"
    lossless: ClassVar[bool] = False
    draft_role: ClassVar[Role] = Role.TARGET
    needs_law: ClassVar[bool] = False
    trees: ClassVar[bool] = False
    trusts: ClassVar[bool] = True
    usual_drafter: ClassVar[str] = "slowfast"
    paced_by: ClassVar[str] = "boundary"
    """The one pacer that counts steps where nothing stays a draft."""

    @classmethod
    def build(cls, strength: float | None) -> Self:
        """Raises ArgumentError for a strength: there is none."""
        if strength is not None:
            raise ArgumentError(f"lossy 'slowfast' takes no strength, not {strength:g}; `budget` is what it reads")
        return cls()

    def accept(self, draft: Draft, laws: Laws, noise: NodeNoise) -> Accepted:
        """As `Coupled.accept`."""
        return Coupled().accept(draft, laws, noise)
