"""What drafting is worth for a checkpoint, a context, a batch and a device, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glimpse.cache.recall import RecallBudget
from glimpse.errors import ArgumentError
from glimpse.model.spec import DecoderSpec
from glimpse.planning.devices import Device
from glimpse.planning.speedup import Acceptance, Best, best_length, break_even, draft_cost
from glimpse.planning.work import step_weight_bytes, step_work

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
    budget: RecallBudget = RecallBudget()
    """What a sparse draft reads."""

    def __post_init__(self) -> None:
        for name in ("context", "batch"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1, not {getattr(self, name)}")

    def step_seconds(self, tokens: int = 1, positions: int | None = None) -> float:
        """Least seconds of a step with `tokens` query tokens a row, each row reading `positions` (None: all)."""
        read = self.context if positions is None else positions
        work = step_work(self.spec, self.dtype, self.batch, tokens, read)
        return work.seconds(self.device.bandwidth, self.device.rate)


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
    """A draft step by its floor, operations counted."""
    plain_seconds: float
    """Floor of a plain step."""
    verify_8: float
    """Cost of verifying 8 drafts."""
    break_even: float | None
    """Acceptance from which a sparse draft pays; None: never."""
    best: tuple[tuple[Acceptance, Best], ...]
    """For each acceptance asked about, the best length of a sparse draft."""
    memory: Memory

    def verify(self, drafted: int) -> float:
        """v(g)."""
        return self.setting.step_seconds(drafted + 1) / self.plain_seconds

    def lookup(self, acceptance: Acceptance) -> Best:
        """The same for a drafter without forwards, such as `lookup`: c = 0."""
        return best_length(acceptance, 0.0, self.verify)


def make_plan(setting: Setting, acceptances: Sequence[Acceptance]) -> Plan:
    """Plan one setting for each of `acceptances`."""
    weights = step_weight_bytes(setting.spec, setting.dtype)
    cache = setting.spec.kv_bytes_per_token(setting.dtype) * setting.context * setting.batch
    plain = setting.step_seconds()
    read = setting.budget.positions(setting.context)
    draft = setting.step_seconds(positions=read) / plain

    def verify(drafted: int) -> float:
        return setting.step_seconds(drafted + 1) / plain

    r, share = cache / weights, read / setting.context
    return Plan(
        setting=setting,
        weights=weights,
        cache=cache,
        r=r,
        share=share,
        c_bytes=draft_cost(r, share),
        c=draft,
        plain_seconds=plain,
        verify_8=verify(8),
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
