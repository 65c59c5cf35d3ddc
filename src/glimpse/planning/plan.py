"""What drafting is worth for a checkpoint, a context, a batch and a device, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import torch

from glimpse.cache.recall import RecallBudget
from glimpse.errors import ArgumentError
from glimpse.model.spec import DecoderSpec
from glimpse.pacing.calibration import shape_of
from glimpse.pacing.costs import FEATURES, StepLoad
from glimpse.planning.devices import Device
from glimpse.planning.overheads import floor_of, terms_of
from glimpse.planning.speedup import Best, Chances, best_length, break_even, draft_cost
from glimpse.planning.work import Step
from glimpse.sampling.checks import shown

_MOST = 1 << 40
"""No device holds more tokens or rows; beyond, sums of bytes and operations are no numbers that can be computed."""
USABLE_MEMORY = 0.9
"""Share of a device's memory for weights and cache; the rest is workspace, graphs and the framework itself."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is asked about."""

    spec: DecoderSpec
    dtype: torch.dtype
    context: int
    """Tokens in the cache of every row."""
    batch: int
    """Rows that decode together."""
    device: Device
    budget: RecallBudget = field(default_factory=RecallBudget)
    """What a sparse draft reads."""

    def __post_init__(self) -> None:
        for name in ("context", "batch"):
            value = getattr(self, name)
            if value < 1:
                raise ArgumentError(f"{name} must be at least 1, not {value}")
            if value > _MOST:
                raise ArgumentError(f"{name} must be at most {_MOST:,}, not {shown(value)}")

    @property
    def prices(self) -> Prices:
        """Measured ones where this very model was calibrated on the device, else from the device's table entry."""
        measured = self.device.measured
        if measured and measured.shape == shape_of(self.spec) and f"torch.{measured.dtype}" == str(self.dtype):
            return MeasuredPrices(self, measured.coefficients)
        return TablePrices(self)


class Prices(Protocol):
    """Seconds of the steps of a setting."""

    @property
    def measured(self) -> bool:
        """Whether they were measured."""

    def full(self, tokens: int) -> float:
        """A step with `tokens` query tokens a row, each row reading everything: 1 is a plain step."""

    def draft(self) -> float:
        """A sparse draft step."""

    def begin(self) -> float:
        """What a sparse round costs beside its steps: gathering the importance and choosing the recall sets."""


@dataclass(frozen=True, slots=True)
class TablePrices:
    """The floors of `work`, and the device's `overheads` on top; without any, no step takes less."""

    setting: Setting
    measured: ClassVar[bool] = False

    def full(self, tokens: int) -> float:
        """See `Prices`."""
        return self._seconds(Step(self.setting.batch, tokens, self.setting.context))

    def draft(self) -> float:
        """See `Prices`."""
        return self._seconds(
            Step(self.setting.batch, 1, self.setting.budget.positions(self.setting.context), gathers=True)
        )

    def begin(self) -> float:
        """See `Prices`."""
        return self._seconds(Step(self.setting.batch, 0, self.setting.context, learns=True, selects=True))

    def _seconds(self, step: Step) -> float:
        setting, device = self.setting, self.setting.device
        about = setting.spec, setting.dtype, step, device.bandwidth, device.rate
        terms = terms_of(*about, device.overheads.few_tokens)
        return floor_of(*about) + device.overheads.seconds(terms)


@dataclass(frozen=True, slots=True)
class MeasuredPrices:
    """The step-time surface that `glimpse calibrate` fitted."""

    setting: Setting
    coefficients: tuple[float, ...]
    measured: ClassVar[bool] = True

    def full(self, tokens: int) -> float:
        """See `Prices`."""
        rows, positions = self.setting.batch, self.setting.context + tokens
        return self._seconds(
            StepLoad(full_tokens=rows * tokens, full_kv=rows * positions, pairs=rows * tokens * positions)
        )

    def draft(self) -> float:
        """See `Prices`."""
        rows, positions = self.setting.batch, self.setting.budget.positions(self.setting.context)
        return self._seconds(StepLoad(draft_tokens=rows, draft_kv=rows * positions))

    def begin(self) -> float:
        """See `Prices`."""
        return self.setting.batch * self.coefficients[FEATURES.index("rounds")]

    def _seconds(self, load: StepLoad) -> float:
        return float(load.features() @ self.coefficients)


@dataclass(frozen=True, slots=True)
class Memory:
    """What the setting needs, and what would fit. None where the device's memory is unknown."""

    weights: int
    cache: int
    fits: bool | None
    largest_batch: int | None
    """Rows of this context that fit."""
    longest_context: int | None
    """Tokens a row that fit at this batch; may be past what the checkpoint allows."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer. Costs are in plain steps."""

    setting: Setting
    weights: int
    """W: weight bytes a step reads."""
    cache: int
    """K: cache bytes a plain step reads, over the batch."""
    r: float
    """K / W."""
    share: float
    """rho: the share of the cache that a draft step reads."""
    c_bytes: float
    """(W + rho K) / (W + K)."""
    c: float
    """A draft step, operations counted, or as measured."""
    begin: float
    """What a sparse round costs besides its steps; counted with its verification."""
    plain_seconds: float
    """A plain step."""
    verify_8: float
    """Cost of verifying 8 drafts."""
    measured: bool
    """Costs are this device's own, measured with this model; else they come from the device table."""
    break_even: float | None
    """Acceptance from which a sparse draft pays; None: never."""
    best: tuple[tuple[Chances, Best], ...]
    """For each acceptance asked about, the best length of a sparse draft."""
    memory: Memory

    def verify(self, drafted: int) -> float:
        """v(g)."""
        return self.setting.prices.full(drafted + 1) / self.plain_seconds

    def sparse(self, acceptance: Chances) -> Best:
        """The best length of a sparse draft."""
        return best_length(acceptance, self.c, lambda drafted: self.begin + self.verify(drafted))

    def lookup(self, acceptance: Chances) -> Best:
        """The same for a drafter without forwards, such as `lookup`: c = 0."""
        return best_length(acceptance, 0.0, self.verify)


def make_plan(setting: Setting, acceptances: Sequence[Chances]) -> Plan:
    """Plan one setting for each of `acceptances`."""
    weights = setting.spec.step_weight_bytes(setting.dtype)
    cache = setting.spec.kv_bytes_per_token(setting.dtype) * setting.context * setting.batch
    prices = setting.prices
    plain = prices.full(1)
    draft, begin = prices.draft() / plain, prices.begin() / plain

    def verify(drafted: int) -> float:
        return begin + prices.full(drafted + 1) / plain

    r, share = cache / weights, setting.budget.positions(setting.context) / setting.context
    return Plan(
        setting=setting,
        weights=weights,
        cache=cache,
        r=r,
        share=share,
        c_bytes=draft_cost(r, share),
        c=draft,
        begin=begin,
        plain_seconds=plain,
        verify_8=verify(8) - begin,
        measured=prices.measured,
        break_even=break_even(draft, verify),
        best=tuple((acceptance, best_length(acceptance, draft, verify)) for acceptance in acceptances),
        memory=_memory(setting),
    )


def _memory(setting: Setting) -> Memory:
    weights = setting.spec.weight_bytes(setting.dtype)
    token = setting.spec.kv_bytes_per_token(setting.dtype)
    cache = token * setting.context * setting.batch
    if not setting.device.memory:
        return Memory(weights, cache, None, None, None)
    room = max(int(setting.device.memory * USABLE_MEMORY) - weights, 0)
    return Memory(weights, cache, cache <= room, room // (token * setting.context), room // (token * setting.batch))
