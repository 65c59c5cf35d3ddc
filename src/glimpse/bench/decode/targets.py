"""The targets of DESIGN section 8 that GPU cells answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from glimpse.bench.results import Target

HEADLINE = "T=0.7"
STEP_LIMITS = {
    "llama-3.1-8b 8000x1": 1.35, "llama-3.1-8b 32000x1": 1.35, "llama-3.1-8b 8000x16": 1.17,
    "llama-3.1-8b 8000x64": 1.08, "demo 8000x64": 1.35,
}  # fmt: skip
"""Plain step over floor."""
DRAFT_LIMITS_MS = {"demo 8000x1": 0.5, "demo 8000x8": 0.5, "demo 8000x64": 0.75}
SPEEDUPS = {
    "demo 8000x64": 3.0, "demo 8000x256": 3.0, "1.7b 8000x32": 2.8, "1.7b 32000x16": 2.8,
    "llama-3.1-8b 8000x64": 1.75, "llama-3.1-8b 32000x16": 2.0,
}  # fmt: skip
"""Over own plain decoding, sampled."""
FILLED = tuple(SPEEDUPS)
"""Cells whose tokens per second are held against the ceiling."""
LEAST_ROWS = 16
"""With fewer, gathering the importance takes less than two timings of a step differ by."""
SMALL = "demo"
"""The 135M model has limits of its own."""


def targets(cells: Sequence[dict[str, Any]]) -> list[Target]:
    """All targets that the cells of a GPU answer; cells of the engine on a CPU have none here."""
    return [target for cell in cells if cell["how"].startswith("device") for target in (*_steps(cell), *_runs(cell))]


def _steps(cell: dict[str, Any]) -> Iterator[Target]:
    name, steps, small = cell["name"], cell["steps"], cell["name"].startswith(SMALL)
    if name in STEP_LIMITS:
        yield Target(f"{name}: decode step / floor", f"<= {STEP_LIMITS[name]}", steps["plain"]["ratio"])
    if name == "demo 8000x1":
        yield Target(f"{name}: decode step, ms", "<= 0.6", steps["plain"]["median"] * 1e3)
    bare, learning = steps["verify_8"]["without"], steps["verify_8"]["with importance"]
    select = steps["select"]["median"]
    yield Target(f"{name}: verify of 8 tokens / floor", f"<= {1.4 if small else 1.2}", bare["ratio"])
    importance = (learning["median"] - select) / bare["median"] - 1
    if cell["rows"] >= LEAST_ROWS:
        yield Target(f"{name}: importance, share of verify", "<= 0.05", importance)
    longest = max(map(int, steps["verify"]))
    whole = longest * steps["draft"]["median"] + steps["verify"][str(longest)]["median"]
    yield Target(f"{name}: selection, share of a round", "<= 0.05", select / whole)
    if name in DRAFT_LIMITS_MS:
        yield Target(f"{name}: draft step, ms", f"<= {DRAFT_LIMITS_MS[name]}", steps["draft"]["median"] * 1e3)
    elif not small:
        yield Target(f"{name}: draft step / floor", "<= 1.3", steps["draft"]["ratio"])


def _runs(cell: dict[str, Any]) -> Iterator[Target]:
    name, found = cell["name"], cell["laws"].get(HEADLINE)
    if found is None:
        return
    hosts = [arm["host_share"] for arm in (found["plain"], *found["drafted"]) if arm["host_share"] is not None]
    if hosts:
        yield Target(f"{name}: host time not hidden, share", "<= 0.05", max(hosts))
    if name in FILLED:
        yield Target(f"{name}: tokens per second / ceiling", ">= 0.8", found["share"])
        yield Target(f"{name}: speedup over plain", f">= {SPEEDUPS[name]}", found["speedup"])
