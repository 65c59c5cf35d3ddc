"""The targets of DESIGN section 8, and of issue 4, that filled batches answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from glimpse.bench.decode.targets import SPEEDUPS
from glimpse.bench.fleet.arms import FLEET, NONE
from glimpse.bench.results import Target

NEVER_BELOW = 0.98
"""Of plain decoding, in any batch."""


def targets(cells: Sequence[dict[str, Any]]) -> list[Target]:
    """All targets that the batches answer; how fast and how well hidden is asked of a GPU only."""
    return [target for cell in cells for target in _targets(cell)]


def _targets(cell: dict[str, Any]) -> Iterator[Target]:
    name, arms = cell["name"], {arm["arm"]: arm for arm in cell["arms"]}
    fleet = arms.get(FLEET)
    if fleet is None:
        return
    yield Target(f"{name}: fleet over none", f">= {NEVER_BELOW}", fleet["speedup"])
    if not cell["how"].startswith("device"):
        return
    for other, arm in arms.items():
        if other not in (NONE, FLEET):
            yield Target(f"{name}: fleet over {other}", ">= 1.0", fleet["speedup"] / arm["speedup"])
    yield Target(f"{name}: host time not hidden, share", "<= 0.05", fleet["host_share"])
    if name in SPEEDUPS:
        yield Target(f"{name}: speedup over none", f">= {SPEEDUPS[name]}", fleet["speedup"])
        yield Target(f"{name}: tokens per second / ceiling", ">= 0.8", fleet["tokens_per_s"] / cell["ceiling"])
