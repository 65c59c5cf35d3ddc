"""What an engine is composed of."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from glimpse.acceptance import Acceptance
from glimpse.cache.pool import PagePool
from glimpse.cache.prefix import PrefixStore
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import Rows
from glimpse.drafting.drafter import Drafter
from glimpse.model import Decoder
from glimpse.pacing.costs import StepCosts
from glimpse.pacing.pacer import Pacer
from glimpse.pacing.riding import GroupPricer
from glimpse.sampling.pipeline import Sampler


@dataclass(frozen=True, slots=True)
class Parts:
    """The rooms of the package, each as one object. Drafter, pacer and acceptance know nothing of the engine."""

    decoder: Decoder
    pool: PagePool
    rows: Rows
    sampler: Sampler
    drafter: Drafter
    pacer: Pacer
    acceptance: Acceptance
    costs: StepCosts
    prefixes: PrefixStore
    budget: RecallBudget
    eos_token_ids: tuple[int, ...]
    lock: AbstractContextManager[object]
    """Held while anything of this is used; shared by all engines over the same cache."""
    pricer: GroupPricer
    """For a `BlockRider`: which of its mask groups ride."""
