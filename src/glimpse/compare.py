"""Plain against speculative: what bytes predict, and how close a divergence was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from glimpse.engine.judge import margin
from glimpse.engine.parts import Parts
from glimpse.engine.request import Request
from glimpse.outputs import Comparison, GenerationOutput, first_difference


def comparison(parts: Parts, outputs: Sequence[GenerationOutput], margin: float | None) -> Comparison:
    """Of outputs in turn speculative (by these `parts`) and plain; the speedup is the median of the pairs' ratios."""
    speeds = [output.timing.tokens_per_s for output in outputs]
    rates = [fast / slow for fast, slow in zip(speeds[::2], speeds[1::2], strict=True) if fast and slow]
    return Comparison(
        baseline=outputs[1],
        speculative=outputs[0],
        speedup=median(rates) if rates else None,
        predicted_speedup=predicted_speedup(parts, outputs[0]),
        margin=margin,
    )


def predicted_speedup(parts: Parts, output: GenerationOutput) -> float | None:
    """Speedup over plain decoding if a step cost what its bytes cost, with the acceptance that was measured.

    A draft step costs c = (W + rho K) / (W + K) of a plain step, a verification as much as a plain one; W are the bytes
    of the weights, K those of the cache, rho the share of it that a draft reads. None without a step.
    """
    spec, dtype = parts.decoder.spec, parts.decoder.dtype
    speculation = output.speculation
    length = output.usage.prompt_tokens + output.usage.completion_tokens // 2
    weights, cache = spec.step_weight_bytes(dtype), spec.kv_bytes_per_token(dtype) * length
    share = parts.budget.positions(length) / length
    draft = (weights + share * cache) / (weights + cache)
    steps = speculation.rounds + speculation.plain_steps
    tokens = steps + speculation.accepted
    time = steps + draft * speculation.draft_steps
    return tokens / time if steps else None


def divergence_margin(
    plain: Parts, baseline: GenerationOutput, speculative: GenerationOutput, request: Request
) -> float | None:
    """How much the plain path preferred its own token where two outputs of `request` part; None where they do not.

    None too where one output has merely ended earlier.
    """
    place = first_difference(baseline.token_ids, speculative.token_ids)
    if place is None or place >= min(len(baseline.token_ids), len(speculative.token_ids)):
        return None
    rivals = (baseline.token_ids[place], speculative.token_ids[place])
    return margin(plain, request.prompt, request.params, list(baseline.token_ids[:place]), rivals)


def with_prefill(output: GenerationOutput, seconds: float) -> GenerationOutput:
    """The output with the time that reading its prompt took for all runs together: each alone would have spent it."""
    return replace(output, timing=replace(output.timing, prefill_s=output.timing.prefill_s + seconds))
