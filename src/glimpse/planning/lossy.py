"""What giving up exactness can buy in a setting, at the most."""

from __future__ import annotations

from dataclasses import dataclass, replace

from glimpse.cache.recall import RecallBudget
from glimpse.drafting.slowfast import SlowFastDrafter
from glimpse.planning.advice import TYPICAL
from glimpse.planning.plan import Plan
from glimpse.planning.speedup import Acceptance

SENTENCE = 20
"""Steps from one that reads everything to the next: of book text with its lines joined, 19 and 21 tokens by the demo
model's tokenizer (docs/lossy.md)."""
FAST = "typical and top-k"
"""Relaxed rules that run as graphs on a GPU (`engine.device.relaxed`)."""
WORTH = 1.1
"""Less than this over the best lossless speed is within what predictions are off by."""


@dataclass(frozen=True, slots=True)
class LossyPlan:
    """Speedups over plain decoding."""

    lossless: float
    """Sparse drafts at the acceptance measured on book text; 1 where plain decoding is best."""
    slowfast: float
    """Slow-Fast Inference with its usual budget and sentences of book text."""
    relaxed: float
    """Sparse drafts of the best length, all of them accepted: no relaxed rule can be faster with that drafter."""
    few: bool
    """Only those of `FAST` come near that there: the others run on the eager engine."""

    @property
    def said(self) -> str:
        """One line: whether a lossy mode buys anything here."""
        best = max(self.slowfast, self.relaxed)
        rules = f"{FAST} (other relaxed rules run eagerly on a GPU)" if self.few else "relaxed rules"
        figures = (
            f"slowfast {self.slowfast:.2f}x, {rules} at most {self.relaxed:.2f}x, where lossless drafts give "
            f"{self.lossless:.2f}x"
        )
        if best < WORTH * self.lossless:
            return f"lossy modes buy nothing here: {figures}"
        return f"lossy modes could buy up to {best / self.lossless:.2f}x over lossless drafts: {figures}"


def lossy_plan(plan: Plan) -> LossyPlan:
    """From the same prices as the rest of the plan."""
    everything = Acceptance(1.0, 1.0)
    relaxed = max(1.0, plan.sparse(everything).speedup)
    return LossyPlan(max(1.0, plan.sparse(TYPICAL).speedup), _slowfast(plan), relaxed, plan.setting.device.gpu)


def _slowfast(plan: Plan) -> float:
    prices = replace(plan.setting, budget=RecallBudget(**SlowFastDrafter.usual_budget)).prices
    fast, slow = prices.draft(), plan.plain_seconds + prices.begin()
    return SENTENCE * plan.plain_seconds / ((SENTENCE - 1) * fast + slow)
