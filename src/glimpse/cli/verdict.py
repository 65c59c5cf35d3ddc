"""What `compare` found, in words: the same text or not, both speeds, and why a drafter cannot pay where it cannot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.console import RenderableType

from glimpse.cli import report

if TYPE_CHECKING:
    from glimpse.cli.contract import Model
    from glimpse.outputs import Comparison

_WORTH_IT = 1.1
"""A predicted speedup from which on nobody asks why it is so small; a measured one may be the machine's unrest."""


def of_comparison(comparison: Comparison, llm: Model) -> list[RenderableType]:
    """The lines and the table of a comparison."""
    speculation = comparison.speculative.speculation
    parts: list[RenderableType] = [identity(comparison), report.ending(comparison.speculative)]
    if speculation.lossy is not None:
        parts.append(report.straying(comparison.speculative))
    parts += [*report.drafts(speculation), *speeds(comparison)]
    why = sparse_note(comparison, llm)
    return [*parts, why] if why else parts


def identity(comparison: Comparison) -> str:
    """Identical or not, and where not; for rules that promise a law and not a text, that too."""
    divergence = comparison.first_divergence
    if divergence is None:
        return f"identical: yes, all {len(comparison.baseline.token_ids):,} tokens"
    margin = (
        "" if divergence.margin is None else f", where plain decoding preferred its own by {divergence.margin:.2g} nats"
    )
    said = f"identical: NO, they part at token {divergence.position + 1}{margin}"
    if comparison.speculative.speculation.lossy is not None:
        return f"{said} (lossy {comparison.speculative.speculation.lossy} promises nothing else)"
    acceptance = comparison.speculative.speculation.acceptance
    if acceptance != "coupled" and comparison.speculative.settings.get("temperature") != 0:
        said += f" ({acceptance} promises the same law when sampling, not the same text; coupled promises both)"
    return said


def speeds(comparison: Comparison) -> list[str]:
    """Both speeds, then the measured beside the predicted speedup."""
    lines = [
        f"plain:       {report.speed(comparison.baseline)}",
        f"speculative: {report.speed(comparison.speculative)}",
    ]
    return [*lines, f"speedup: measured {_times(comparison.speedup)}, predicted {_times(comparison.predicted_speedup)}"]


def sparse_note(comparison: Comparison, llm: Model) -> str | None:
    """Why the sparse drafter gains nothing, where the weights W outweigh the cache K, and where it would; else None.

    A draft step costs (W + rho K) / (W + K) of a plain one (docs/planning.md): it reads all weights, and a share of the
    cache.
    """
    best = max(comparison.predicted_speedup or 0, comparison.speedup or 0)
    if comparison.speculative.speculation.drafter != "sparse" or best >= _WORTH_IT:
        return None
    import torch

    from glimpse.cache.recall import RecallBudget
    from glimpse.planning import draft_cost

    dtype = getattr(torch, str(llm.settings["dtype"]))
    weights, per_token = llm.spec.step_weight_bytes(dtype), llm.spec.kv_bytes_per_token(dtype)
    usage = comparison.speculative.usage
    length = usage.prompt_tokens + usage.completion_tokens
    cache = per_token * length
    if weights <= cache:
        return None
    budget = RecallBudget(float(llm.settings["budget"]), int(llm.settings["budget_floor"]))
    cost = draft_cost(cache / weights, budget.positions(length) / length)
    return (
        f"Why no gain: a plain step reads {_size(weights)} of weights and {_size(cache)} of cache; a sparse draft step "
        f"spares most of the cache, none of the weights, and so costs {cost:.2f} of it. "
        f"{_where_it_pays(weights, cache, per_token, int(llm.settings['context_length']))} "
        "Where text repeats itself, --drafter lookup drafts without a forward pass."
    )


def _where_it_pays(weights: int, cache: int, per_token: int, context_length: int) -> str:
    tokens, rows = math.ceil(weights / per_token), math.ceil(weights / cache)
    reach = f" (this model's context ends at {context_length:,})" if tokens > context_length else ""
    where = f"from {tokens:,} tokens{reach}, or {rows:,} such requests at once"
    return f"It pays where the cache outweighs the weights: {where}."


def _times(speedup: float | None) -> str:
    return "unknown" if speedup is None else f"{speedup:.2f}×"


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
