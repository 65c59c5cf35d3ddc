"""What a load came to: latencies, throughput, goodput within limits, acceptance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from glimpse.bench.serve.load import Seen


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request must keep to count (a service level objective), in seconds."""

    ttft: float = 2.0
    tpot: float = 0.1

    def kept(self, seen: Seen) -> bool:
        """Whether a request kept them."""
        return seen.ok and seen.ttft <= self.ttft and (seen.tpot is None or seen.tpot <= self.tpot)


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one load. Seconds; percentiles are of the requests that came to a good end, NaN where there are none."""

    requests: int
    ok: int
    refused: int
    """Answered 429."""
    failed: int
    """Anything else that is no good end."""
    seconds: float
    """From the begin to the last answer."""
    tokens_per_s: float
    requests_per_s: float
    goodput: float
    """Requests a second that kept the limits."""
    kept: float
    """Their share of all requests sent."""
    ttft_p50: float
    ttft_p90: float
    ttft_p99: float
    tpot_p50: float
    tpot_p90: float
    tpot_p99: float
    late: float
    """How late the generator itself was, at worst: above a few milliseconds it is what was measured."""
    accepted: float | None
    """Accepted share of the draft tokens verified; None where the server tells nothing of it."""
    mean_accepted: float | None
    """Tokens a verification, the target's own included."""

    def to_json(self) -> dict[str, Any]:
        """As plain values, NaN as None."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


def summarise(found: Sequence[Seen], limits: Limits) -> Summary:
    """Of all requests of a load."""
    good = [seen for seen in found if seen.ok]
    seconds = max((seen.last for seen in found), default=0.0) or 1e-9
    kept, codes = sum(map(limits.kept, found)), Counter(seen.status for seen in found)
    first = _percentiles([seen.ttft for seen in good])
    each = _percentiles([seen.tpot for seen in good if seen.tpot is not None])
    accepted, length = _acceptance(good)
    return Summary(
        len(found), len(good), codes[429], len(found) - len(good) - codes[429], seconds,
        sum(seen.tokens for seen in good) / seconds, len(good) / seconds, kept / seconds, kept / max(1, len(found)),
        *first, *each, max((seen.sent - seen.due for seen in found if seen.sent), default=0.0), accepted, length,
    )  # fmt: skip


def _percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    if not values:
        return (float("nan"),) * 3
    low, middle, high = np.percentile(values, (50, 90, 99)).tolist()
    return low, middle, high


def _acceptance(good: Sequence[Seen]) -> tuple[float | None, float | None]:
    told = [seen.speculation for seen in good if seen.speculation.get("drafted")]
    drafted, accepted = (sum(one[name] for one in told) for name in ("drafted", "accepted"))
    if not drafted:
        return None, None
    # A verification has one token of the first depth at most, so their number is that of the verifications.
    rounds = sum(one["drafted_by_depth"][0] for one in told)
    return accepted / drafted, 1 + accepted / rounds
