"""The policies that LibraSpec is compared with, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.chain import MarginalChainPacer
from glimpse.pacing.entropy import EntropyPacer
from glimpse.pacing.fixed import FixedPacer
from glimpse.pacing.libraspec import LibraSpecChainPacer, LibraSpecPacer
from glimpse.pacing.marginal import MarginalPacer
from glimpse.pacing.pacer import Action, PaceContext, Pacer
from glimpse.pacing.proposals import Floats
from glimpse.pacing.reliability import Reliability

Make = Callable[[PaceContext], Pacer]
FIXED = (0, 1, 2, 3, 4, 6, 8, 12, 16)
THRESHOLDS = (0.6, 0.7, 0.8, 0.9)
PLAIN, ENTROPY, MARGINAL, PAPER = "fixed 0", "entropy", "marginal", "libraspec"


class Threshold(MarginalChainPacer):
    """Drafts until a token's chance falls under a limit; verifies all that was drafted."""

    def __init__(self, context: PaceContext, limit: float) -> None:
        super().__init__(context)
        self._limit, self.rolls_back = limit, False

    def _decide_one_more(self, rows: RowView, have: np.ndarray, left: np.ndarray) -> list[Action]:
        pairs = zip(rows.slots, have.tolist(), left.tolist(), strict=True)
        return [self._action(self._of(rows, slot, drafted), more) for slot, drafted, more in pairs]

    def _action(self, chances: Floats, more: int) -> Action:
        return Action.DRAFT if more > 0 and not (chances < self._limit).any() else Action.VERIFY


class BlockThreshold(MarginalPacer):
    """Verifies a block up to the first token whose chance is under a limit."""

    def __init__(self, context: PaceContext, limit: float) -> None:
        super().__init__(context)
        self._limit = limit

    def trim(self, rows: RowView) -> list[int]:
        chances = [self.proposed(rows, slot)[1] for slot in rows.slots]
        return [int(np.argmax(np.append(own, 0.0) < self._limit)) for own in chances]


class FirstOf(FixedPacer):
    """Takes whole blocks and verifies their first `length` tokens; 0 drafts none."""

    def __init__(self, context: PaceContext, length: int) -> None:
        super().__init__(16 if length else 0)
        self._length = length

    def trim(self, rows: RowView) -> list[int]:
        return [min(self._length, have) for have in rows.column(rows.rows.draft_len)]


class Untaught(MarginalPacer):
    """Believes what drafters say (between `proposals.LEAST` and `proposals.SUREST`)."""

    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Learns nothing."""


class UntaughtPaper(Untaught, LibraSpecPacer):
    """LibraSpec as published: its constant, and the drafter's word."""


class Fixed(Reliability):
    """Learns nothing."""

    def learn(self, odds: float, accepted: bool) -> None:
        pass


class Unlearning(MarginalChainPacer):
    """Keeps to the maps of requests in general."""

    def admit(self, rows: RowView) -> None:
        super().admit(rows)
        for slot in rows.slots:
            self._drawn[slot].reliability = Fixed()


class Deaf(MarginalChainPacer):
    """Is told no margins, as on a GPU."""

    candidates = 0


class AlphaChain(LibraSpecChainPacer):
    """With another constant."""

    def __init__(self, context: PaceContext, alpha: float) -> None:
        super().__init__(context)
        self.alpha = alpha


class AlphaBlock(LibraSpecPacer):
    """With another constant."""

    def __init__(self, context: PaceContext, alpha: float) -> None:
        super().__init__(context)
        self.alpha = alpha


def said(make: Make) -> Make:
    """By the probability of the token drawn, as the paper has it, not by margins."""
    return lambda context: make(replace(context, same_noise=False))


def causal(make: Make) -> Make:
    """Without rollback, but otherwise alike."""

    def made(context: PaceContext) -> Pacer:
        pacer = make(context)
        pacer.rolls_back = False  # type: ignore[attr-defined]
        return pacer

    return made


CHAINS: Mapping[str, Make] = {
    **{f"fixed {length}": (lambda context, length=length: FixedPacer(length)) for length in FIXED},
    **{f"threshold {limit}": partial(Threshold, limit=limit) for limit in THRESHOLDS},
    ENTROPY: EntropyPacer,
    MARGINAL: MarginalChainPacer,
    "marginal, no rollback": causal(MarginalChainPacer),
    "marginal, maps alone": Unlearning,
    "marginal, by probability": said(MarginalChainPacer),
    "marginal, margins untold": Deaf,
    PAPER: LibraSpecChainPacer,
    "libraspec, by probability": said(LibraSpecChainPacer),
    **{f"alpha {alpha:g}": partial(AlphaChain, alpha=alpha) for alpha in (1.5, 4)},
}
BLOCKS: Mapping[str, Make] = {
    **{f"fixed {length}": partial(FirstOf, length=length) for length in FIXED},
    **{f"threshold {limit}": partial(BlockThreshold, limit=limit) for limit in THRESHOLDS},
    ENTROPY: EntropyPacer,
    MARGINAL: MarginalPacer,
    "marginal, as it is said": Untaught,
    PAPER: LibraSpecPacer,
    "libraspec, as it is said": UntaughtPaper,
    **{f"alpha {alpha:g}": partial(AlphaBlock, alpha=alpha) for alpha in (1.5, 4, 10)},
}
