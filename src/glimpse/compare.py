"""Plain against speculative: what the prices of steps predict, and how close a divergence was."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from statistics import median

from glimpse.engine.judge import margin
from glimpse.engine.parts import Parts
from glimpse.engine.request import Request
from glimpse.outputs import Comparison, GenerationOutput, StreamChunk, first_difference
from glimpse.pacing.costs import StepLoad


def in_turn(
    runs: Sequence[Callable[[], Generator[StreamChunk, None, None]]],
    pairs: int,
    on_chunk: Callable[[StreamChunk], None] | None,
) -> list[GenerationOutput]:
    """Outputs of the runs one after the other, `pairs` times but at least once; `on_chunk` hears the first of all."""
    outputs: list[GenerationOutput] = []
    for turn, begin in enumerate([*runs] * max(1, pairs)):
        with closing(begin()) as chunks:
            for chunk in chunks:
                if on_chunk and turn == 0:
                    on_chunk(chunk)
                if chunk.output:
                    outputs.append(chunk.output)
    return outputs


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
    """Speedup over plain decoding by the price of each step (`parts.costs`), with the drafts that were accepted.

    The prices are those that pacers decide by: bytes and arithmetic, calibrated or learned from the steps that ran. A
    step of the middle of the output stands for all. None without a step.
    """
    speculation, usage = output.speculation, output.usage
    if not speculation.emitted:
        return None
    prices = _Prices(parts, usage.prompt_tokens + usage.completion_tokens // 2)
    verified = sum(count * prices.verify(drafted) for drafted, count in speculation.draft_lengths.items())
    plain = prices.verify(0)
    spent = speculation.plain_steps * plain + speculation.draft_steps * prices.draft() + verified
    return speculation.emitted * plain / spent


class _Prices:
    """Seconds of the steps of one row of some length."""

    def __init__(self, parts: Parts, length: int) -> None:
        self._costs, self._length = parts.costs, length
        self._recalled = parts.budget.positions(length)
        self._chooses = parts.drafter.needs_forward

    def verify(self, drafted: int) -> float:
        """A verification of `drafted` tokens; of none, a plain step."""
        queries, read = drafted + 1, self._length + drafted
        chosen = int(self._chooses and drafted > 0)
        return self._costs.seconds(StepLoad(full_tokens=queries, full_kv=read, pairs=queries * read, rounds=chosen))

    def draft(self) -> float:
        """A draft step over the recall set."""
        return self._costs.seconds(StepLoad(draft_tokens=1, draft_kv=self._recalled))


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
