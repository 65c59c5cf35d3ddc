"""`usage` of an answer, and what speculation did for it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from glimpse.outputs import GenerationOutput


@dataclass(slots=True)
class Stopwatch:
    """When a request came, and when its first token did (seconds of time.perf_counter)."""

    begun: float = field(default_factory=time.perf_counter)
    first: float | None = None

    def mark(self) -> None:
        """A token has come."""
        self.first = time.perf_counter() if self.first is None else self.first

    @property
    def ttft(self) -> float | None:
        """Seconds to the first token."""
        return None if self.first is None else self.first - self.begun

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self.begun


def usage_of(outputs: Sequence[GenerationOutput], prompts: Sequence[int], watch: Stopwatch) -> dict[str, object]:
    """`usage` of all texts of a request; `prompts`: tokens of each prompt, which is counted once however large n is."""
    written = sum(output.usage.completion_tokens for output in outputs)
    return {
        "prompt_tokens": sum(prompts),
        "completion_tokens": written,
        "total_tokens": sum(prompts) + written,
        "speculation": speculation_of(outputs, watch),
    }


def speculation_of(outputs: Sequence[GenerationOutput], watch: Stopwatch) -> dict[str, object]:
    """`usage.speculation`: counts over all texts; speeds as this client saw them."""
    all_of = [output.speculation for output in outputs]
    first, rounds = all_of[0], sum(one.rounds for one in all_of)
    accepted = sum(one.accepted for one in all_of)
    report: dict[str, object] = {
        "drafter": first.drafter,
        "pacer": first.pacer,
        "acceptance": first.acceptance,
        "drafted": sum(one.drafted for one in all_of),
        "accepted": accepted,
        "drafted_by_depth": _summed([one.drafted_by_depth for one in all_of]),
        "accepted_by_depth": _summed([one.accepted_by_depth for one in all_of]),
        "mean_accepted": 1 + accepted / rounds if rounds else 1.0,
        "tokens_per_second": _speed(outputs),
        "ttft_ms": None if watch.ttft is None else 1e3 * watch.ttft,
        "recalled": first.recalled if len(all_of) == 1 else None,
    }
    if first.lossless:
        return report
    passed = {"relaxed": sum(one.relaxed for one in all_of), "trusted": sum(one.trusted for one in all_of)}
    return report | {"lossless": False, "lossy": first.lossy} | passed


def _summed(columns: Sequence[Sequence[int]]) -> list[int]:
    return [sum(row) for row in zip_longest(*columns, fillvalue=0)]


def _speed(outputs: Sequence[GenerationOutput]) -> float | None:
    """Tokens a second of decoding: of several texts at once, all their tokens over the longest."""
    timed = [output.timing for output in outputs if output.timing.tokens_per_s is not None]
    longest = max((timing.decode_s for timing in timed), default=0.0)
    return sum(timing.completion_tokens - 1 for timing in timed) / longest if longest else None
