"""LibraSpec as published: the local search with a constant alpha, for comparison with measured prices (`marginal`)."""

from __future__ import annotations

import numpy as np

from glimpse.cache.rows import RowView
from glimpse.errors import ArgumentError
from glimpse.pacing.block_rule import CutRule
from glimpse.pacing.chain import MarginalChainPacer
from glimpse.pacing.libra import ALPHA, search
from glimpse.pacing.marginal import MarginalPacer
from glimpse.pacing.pacer import Action, PaceContext, Pacer


class LibraSpecPacer(MarginalPacer):
    """Cuts whole drafts (blocks, chains) where the search does, whatever they cost."""

    name = "libraspec"
    alpha = ALPHA

    @classmethod
    def build(cls, context: PaceContext) -> Pacer:
        """For whole drafts, or for chains that need a forward a token.

        Raises ArgumentError for trees, and where all that was drawn has to be verified.
        """
        if context.trees:
            raise ArgumentError("pacer 'libraspec' searches chains, and this drafter gives trees; use pacer 'marginal'")
        if not context.may_drop:
            raise ArgumentError(
                "pacer 'libraspec' gives drafted tokens back, and this acceptance rule holds only if all that was "
                "drawn is verified; use acceptance 'coupled' or 'matched', or pacer 'marginal', which then keeps all"
            )
        return cls(context) if context.drafts_at_once or not context.can_draft else LibraSpecChainPacer(context)

    def trim(self, rows: RowView) -> list[int]:
        """How many tokens of each draft the search keeps: the draft is one block."""
        return [self._length(rows, slot) for slot in rows.slots]

    def rule(self, slot: int, floor: float) -> CutRule:
        """The search alone: what a token costs is in alpha."""
        return CutRule.of(self.trust_of(slot), 0.0, self.alpha)

    def _length(self, rows: RowView, slot: int) -> int:
        _, chances = self.proposed(rows, slot)
        return search(chances, self.alpha, len(chances), len(chances))[0]


class LibraSpecChainPacer(MarginalChainPacer):
    """Drafts and gives back as the search says, blocks being of one token."""

    name = "libraspec"
    alpha = ALPHA

    def trim(self, rows: RowView) -> list[int]:
        """How many tokens of each chain the search keeps."""
        drafted = rows.column(rows.rows.draft_len)
        return [self._search(rows, slot, have, have)[0] for slot, have in zip(rows.slots, drafted, strict=True)]

    def _decide_one_more(self, rows: RowView, have: np.ndarray, left: np.ndarray) -> list[Action]:
        actions = []
        for slot, drafted, more in zip(rows.slots, have.tolist(), left.tolist(), strict=True):
            final = more <= 0 or self._search(rows, slot, drafted, drafted + more)[1]
            actions.append(Action.DRAFT if not final else Action.VERIFY if drafted else Action.PLAIN)
        return actions

    def _search(self, rows: RowView, slot: int, drafted: int, most: int) -> tuple[int, bool]:
        return search(self._of(rows, slot, drafted), self.alpha, 1, most)
