"""What steps take beyond the floors of `work`, in a few numbers that hold for every model on a device.

    seconds = floor + layer (or few_layer) x layers + arithmetic x attention's operations / rate
            + gathering x bytes / bandwidth                                      where they are read here and there
            + learning x scores / bandwidth                                      where a verification learns
            + selecting_layer x layers + selecting x 4 scores / bandwidth        where recall sets are chosen

They are fitted to measured steps of several models together (`benchmarks/plan_check.py`, docs/planning.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from glimpse.model.spec import DecoderSpec
from glimpse.planning.work import SELECTION_PASSES, Step, score_bytes, step_work

NARROW = 1024
"""Models up to this hidden size run steps of few tokens in few launches a layer (engine/device/narrow)."""
LONG, LONG_FACTOR = 16384, 2.7
"""Longer rows do not fit into registers when recall sets are chosen, and take so many times as long a score."""
FEW = (4, 16, 64, 256, 640)
"""What "few" may be: a fit finds out."""
COEFFICIENTS = ("layer", "few_layer", "arithmetic", "gathering", "learning", "selecting", "selecting_layer")
"""What a step's terms are multiplied by."""


@dataclass(frozen=True, slots=True)
class Overheads:
    """All zero: floors."""

    layer: float = 0.0
    """Seconds a layer of a step: launches, and what kernels wait for one another."""
    few_layer: float = 0.0
    """The same where a narrow model has few tokens."""
    arithmetic: float = 0.0
    """Times that attention's operations at the device's rate come on top of its bytes; it has a rate of its own."""
    gathering: float = 0.0
    """Times that reading a recall set costs more than moving its bytes once."""
    learning: float = 0.0
    """Times that writing the scores of a verification costs more than moving their bytes once."""
    selecting: float = 0.0
    """The same for choosing recall sets, over moving the scores four times."""
    selecting_layer: float = 0.0
    """Seconds a layer of choosing recall sets."""
    few_tokens: int = 4
    """Up to so many tokens in a step are few."""

    @property
    def coefficients(self) -> np.ndarray:
        """[7], as `COEFFICIENTS` names them."""
        return np.array([getattr(self, name) for name in COEFFICIENTS])

    def seconds(self, terms: np.ndarray) -> float:
        """Seconds beyond the floor of a step with these `terms`."""
        return float(self.coefficients @ terms)


@dataclass(frozen=True, slots=True)
class Observed:
    """One measured step, as a fit sees it."""

    floor: float
    terms: np.ndarray
    seconds: float


def floor_of(spec: DecoderSpec, dtype: torch.dtype, step: Step, bandwidth: float, rate: float) -> float:
    """Seconds that the forward of a step takes at least; 0 without one."""
    if not step.tokens:
        return 0.0
    return step_work(spec, dtype, step.batch, step.tokens, step.positions).seconds(bandwidth, rate)


def terms_of(
    spec: DecoderSpec, dtype: torch.dtype, step: Step, bandwidth: float, rate: float, few_tokens: int
) -> np.ndarray:
    """[7]: what each of `COEFFICIENTS` is multiplied by."""
    few = spec.hidden_size <= NARROW and step.batch * step.tokens <= few_tokens
    layers = spec.layers if step.tokens else 0
    attention = step_work(spec, dtype, step.batch, step.tokens, step.positions).attention
    moved = score_bytes(spec, step) / bandwidth
    return np.array((
        0 if few else layers,
        layers if few else 0,
        attention.operations / rate,
        attention.bytes / bandwidth * step.gathers,
        moved * step.learns,
        SELECTION_PASSES * moved * step.selects * (LONG_FACTOR if step.positions > LONG else 1.0),
        spec.layers * step.selects,
    ))  # fmt: skip


def fit(observed: Sequence[Observed], known: Overheads | None = None) -> Overheads:
    """The overheads with the least squared relative errors, none negative.

    What no observation depends on keeps its value in `known`.
    """
    known = known or Overheads()
    values = known.coefficients
    seconds = np.array([one.seconds for one in observed])
    terms = np.array([one.terms for one in observed]) / seconds[:, None]
    wanted = 1 - np.array([one.floor for one in observed]) / seconds
    seen = terms.any(axis=0)
    values[seen] = 0
    values[seen] = _non_negative(terms[:, seen], wanted)
    return replace(known, **dict(zip(COEFFICIENTS, map(float, values), strict=True)))  # type: ignore[arg-type]


def best_fit(observed: Callable[[int], Sequence[Observed]]) -> Overheads:
    """The fit with that meaning of "few" which leaves the least relative errors; not squared, so that a kind of step
    which none of them fits does not decide.

    `observed(few_tokens)`: the steps, their terms made with it.
    """

    def error(found: Overheads) -> float:
        steps = observed(found.few_tokens)
        return sum(abs((one.floor + found.seconds(one.terms)) / one.seconds - 1) for one in steps)

    return min((fit(observed(few), Overheads(few_tokens=few)) for few in FEW), key=error)


def _non_negative(terms: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Least squares without negative coefficients: those that come out negative are left out, the rest fitted anew."""
    used = np.ones(terms.shape[1], dtype=bool)
    found = np.zeros(terms.shape[1])
    while used.any():
        # Columns of one size: seconds a layer are a millionth of what the others are.
        scale = np.abs(terms[:, used]).max(axis=0)
        found[:] = 0
        found[used] = np.linalg.lstsq(terms[:, used] / scale, wanted, rcond=None)[0] / scale
        if (found >= 0).all():
            break
        used &= found > 0
    return np.maximum(found, 0)
