"""Rotary scaling out of a transformers config (its `rope_parameters`, to which both spellings are brought)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from glimpse.errors import ModelError
from glimpse.model.rope_scaling import Dynamic, Linear, Llama3, Plain, RopeScaling, Yarn

Parameters = Mapping[str, Any]


def scaling_from_config(config: Any, label: str) -> tuple[float, RopeScaling]:
    """Rotary base and scaling of a transformers config. ModelError for an unsupported kind or a missing value."""
    parameters = config.rope_parameters or {}
    parameters = parameters.get("full_attention", parameters)
    kind = parameters.get("rope_type", "default")
    if kind not in _READERS:
        raise ModelError(f"{label}: rotary scaling {kind!r} is not supported; these are: {', '.join(_READERS)}")
    if (part := parameters.get("partial_rotary_factor", 1.0)) != 1.0:
        raise ModelError(f"{label}: partial_rotary_factor {part} is not supported; only 1.0 is")
    try:
        return float(parameters["rope_theta"]), _READERS[kind](parameters, config.max_position_embeddings)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ModelError(f"{label}: rotary scaling {kind!r} lacks a usable value: {error}") from error


def yarn_attention_factor(factor: float, mscale: float | None = None, mscale_all_dim: float | None = None) -> float:
    """0.1 ln(factor) + 1 (YaRN, equation 15), or the ratio of two such terms where a checkpoint gives both weights."""

    def term(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if mscale and mscale_all_dim:
        return term(mscale) / term(mscale_all_dim)
    return term(1.0)


def _yarn(parameters: Parameters, max_positions: int) -> Yarn:
    trained = parameters.get("original_max_position_embeddings") or max_positions
    factor = parameters.get("factor") or max_positions / trained
    attention = parameters.get("attention_factor")
    if attention is None:
        attention = yarn_attention_factor(factor, parameters.get("mscale"), parameters.get("mscale_all_dim"))
    return Yarn(
        factor=float(factor),
        trained_length=int(trained),
        attention_factor=float(attention),
        beta_fast=float(parameters.get("beta_fast") or 32),
        beta_slow=float(parameters.get("beta_slow") or 1),
        truncate=bool(parameters.get("truncate", True)),
    )


def _llama3(parameters: Parameters, max_positions: int) -> Llama3:
    return Llama3(
        factor=float(parameters["factor"]),
        low_freq_factor=float(parameters["low_freq_factor"]),
        high_freq_factor=float(parameters["high_freq_factor"]),
        trained_length=int(parameters.get("original_max_position_embeddings") or max_positions),
    )


_READERS: dict[str, Callable[[Parameters, int], RopeScaling]] = {
    "default": lambda parameters, max_positions: Plain(),
    "linear": lambda parameters, max_positions: Linear(float(parameters["factor"])),
    "dynamic": lambda parameters, max_positions: Dynamic(float(parameters["factor"]), max_positions),
    "llama3": _llama3,
    "yarn": _yarn,
}
