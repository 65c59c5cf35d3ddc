"""The targets of DESIGN section 8 that decode cells answer, and the tables made of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from glimpse.bench.results import Table, Target

Results = list[dict[str, Any]]
STEP_LIMITS = {
    "llama-3.1-8b 8000x1": 1.35, "llama-3.1-8b 32000x1": 1.35, "llama-3.1-8b 8000x16": 1.17,
    "llama-3.1-8b 8000x64": 1.08, "demo 8000x64": 1.35,
}  # fmt: skip
"""Plain step over floor."""
DRAFT_LIMITS_MS = {"demo 8000x1": 0.5, "demo 8000x8": 0.5, "demo 8000x64": 0.75}
SPEEDUPS = {
    "demo 8000x64": 3.0, "demo 8000x256": 3.0, "1.7b 8000x32": 2.8, "llama-3.1-8b 8000x64": 1.75,
    "llama-3.1-8b 32000x16": 2.0,
}  # fmt: skip


def targets(cells: Results) -> list[Target]:
    """All targets that the cells answer; what falls short says by how much."""
    return [target.noted("see docs/performance-gpu.md") for cell in cells for target in _of_cell(cell)]


def _of_cell(cell: dict[str, Any]) -> Iterator[Target]:
    name, sampled = cell["cell"], cell["sampled"]
    small = name.startswith("demo")
    if name in STEP_LIMITS:
        ratio = sampled["plain_s"] / cell["plain_floor_s"]
        yield Target(f"{name}: decode step / floor", f"<= {STEP_LIMITS[name]}", ratio)
    if name == "demo 8000x1":
        yield Target(f"{name}: decode step, ms", "<= 0.6", sampled["plain_s"] * 1e3)
    parts = cell["verify_8"]
    bare = parts["without"] / cell["verify_8_floor_s"]
    yield Target(f"{name}: verify of 8 tokens / floor", f"<= {1.4 if small else 1.2}", bare)
    share = (parts["learning"] - parts["select"]) / parts["without"] - 1
    yield Target(f"{name}: importance, share of verify", "<= 0.05", share)
    longest = max(sampled["rounds"], key=lambda row: row["gamma"])
    yield Target(f"{name}: selection, share of a round", "<= 0.05", parts["select"] / longest["round_s"]["median"])
    if name in DRAFT_LIMITS_MS:
        yield Target(f"{name}: draft step, ms", f"<= {DRAFT_LIMITS_MS[name]}", longest["draft_s"] * 1e3)
    elif not small:
        yield Target(f"{name}: draft step / floor", "<= 1.3", longest["draft_s"] / cell["draft_floor_s"])
    yield Target(f"{name}: tokens per second / ceiling", ">= 0.8", sampled["share"])
    if name in SPEEDUPS:
        yield Target(f"{name}: speedup over plain", f">= {SPEEDUPS[name]}", sampled["speedup"])


def tables(cells: Results) -> list[Table]:
    """One table: a row for each cell and law."""
    columns = ["cell", "law", "plain, ms", "/ floor", "draft, ms", "/ floor", "verify, ms", "/ floor", "best draft",
               "accepted", "tokens/s", "speedup", "/ ceiling", "distinct 4-grams"]  # fmt: skip
    rows = [_row(cell, law) for cell in cells for law in ("sampled", "greedy")]
    return [Table("Decoding on one H200 (bf16); twins are 135M tokens at the larger model's cost", columns, rows)]


def _row(cell: dict[str, Any], law: str) -> list[str]:
    found = cell[law]
    best = next(row for row in found["rounds"] if row["gamma"] == found["best_gamma"])
    return [
        cell["cell"], law, f"{found['plain_s'] * 1e3:.2f}", f"{found['plain_s'] / cell['plain_floor_s']:.2f}",
        f"{best['draft_s'] * 1e3:.2f}", f"{best['draft_s'] / cell['draft_floor_s']:.2f}",
        f"{best['verify_s'] * 1e3:.2f}", f"{best['verify_s'] / best['verify_floor_s']:.2f}", str(best["gamma"]),
        f"{best['accepted']:.2f}", f"{found['tokens_per_s']:.0f}", f"{found['speedup']:.2f}", f"{found['share']:.2f}",
        f"{found['distinct_4grams']:.2f}",
    ]  # fmt: skip
