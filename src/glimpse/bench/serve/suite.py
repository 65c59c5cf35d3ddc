"""Loads at rising rates as a result file: each way of drafting at each rate, the plain one beside the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glimpse.bench.results import Result, Table, Target
from glimpse.bench.serve.http import Address
from glimpse.bench.serve.load import Load, Seen, run
from glimpse.bench.serve.summary import Limits, Summary, summarise

PLAIN = "none"
_COLUMNS = (
    "drafter", "requests/s asked", "done", "429", "failed", "tokens/s", "goodput/s", "TTFT p50", "p90", "p99 (s)",
    "TPOT p50", "p90", "p99 (ms)", "accepted",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured."""

    address: Address
    path: str
    bodies: Sequence[Mapping[str, Any]]
    rates: Sequence[float]
    drafters: Sequence[str | None]
    """Each as the body's `drafter`; None: as the server is set, which any server can."""
    seconds: float
    limits: Limits
    seed: int = 0


def measure(plan: Plan, rate: float, drafter: str | None) -> tuple[Summary, list[Seen]]:
    """One load. All drafters get the same requests at the same moments."""
    own = {} if drafter is None else {"drafter": drafter}
    bodies = [{**body, **own} for body in plan.bodies]
    found = asyncio.run(run(Load(plan.address, plan.path, bodies, rate, plan.seconds, plan.seed)))
    return summarise(found, plan.limits), found


def measure_all(plan: Plan, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Every drafter at every rate, in turn; one run each."""
    runs = []
    for rate in plan.rates:
        for drafter in plan.drafters:
            summary, found = measure(plan, rate, drafter)
            told = f"{summary.tokens_per_s:.1f} tokens/s, {summary.ok} done{why(found)}"
            tell(f"{drafter or 'as set'} at {rate:g}/s: {told}")
            runs.append(run_of(rate, drafter, summary, found))
    return runs


def why(found: Sequence[Seen]) -> str:
    """What the first request that failed was told, as the end of a line; nothing where none did."""
    failed = [seen for seen in found if not seen.ok and seen.status != 429]
    if not failed:
        return ""
    told = " ".join(failed[0].error.split()) or "no text came"
    return f", {len(failed)} failed: {failed[0].status or 'no answer'} {told}"


def run_of(rate: float, drafter: str | None, summary: Summary, found: Sequence[Seen]) -> dict[str, Any]:
    """A run of the result file."""
    return {"rate": rate, "drafter": drafter, **summary.to_json(), "seen": [seen.to_json() for seen in found]}


def table_of(runs: Sequence[Mapping[str, Any]]) -> Table:
    """One row a load."""
    rows = []
    for one in runs:
        times = [_shown(one[f"ttft_p{part}"], 1, 3) for part in (50, 90, 99)]
        times += [_shown(one[f"tpot_p{part}"], 1e3, 1) for part in (50, 90, 99)]
        counts = [str(one["ok"]), str(one["refused"]), str(one["failed"])]
        speeds = [f"{one['tokens_per_s']:.1f}", f"{one['goodput']:.2f}"]
        rows.append(
            [one["drafter"] or "as set", f"{one['rate']:g}", *counts, *speeds, *times, _shown(one["accepted"], 1, 2)]
        )
    return Table("Load on a server", _COLUMNS, rows)


def targets_of(runs: Sequence[Mapping[str, Any]]) -> list[Target]:
    """That no request failed, and that no drafter made the server slower than plain decoding at the same load."""
    found = [Target("requests that failed (429 apart)", "== 0", sum(one["failed"] for one in runs)).noted(None)]
    plain = {one["rate"]: one for one in runs if one["drafter"] == PLAIN}
    for one in runs:
        base = plain.get(one["rate"])
        if base is not None and one is not base and base["tokens_per_s"]:
            what = f"{one['drafter']} at {one['rate']:g} requests/s: tokens/s over plain"
            found.append(Target(what, ">= 0.98", one["tokens_per_s"] / base["tokens_per_s"]).noted(None))
    return found


def result_of(
    plan: Plan, runs: Sequence[dict[str, Any]], *, device: Mapping[str, Any], versions: Mapping[str, str],
    commit: str, dirty: bool, settings: Mapping[str, Any],
) -> Result:  # fmt: skip
    """The result file."""
    own = {"rates": list(plan.rates), "drafters": list(plan.drafters), "seconds": plan.seconds, "seed": plan.seed,
           "slo_ttft_s": plan.limits.ttft, "slo_tpot_s": plan.limits.tpot, "path": plan.path,
           "prompts": len(plan.bodies)}  # fmt: skip
    return Result(
        suite="serve", device=device, versions=versions, commit=commit, dirty=dirty, quick=False,
        settings={**own, **settings}, runs=runs, targets=targets_of(runs), tables=[table_of(runs)],
    )  # fmt: skip


def _shown(value: float | None, factor: float, digits: int) -> str:
    return "-" if value is None else f"{factor * value:.{digits}f}"
