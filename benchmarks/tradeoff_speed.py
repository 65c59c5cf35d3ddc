"""Tokens a second of whole batches in the modes that run as CUDA graphs: plain, lossless sparse, Slow-Fast Inference.

Part of `gpu_tradeoff`. All rows decode while the clock runs. The modes of a cell follow one another, as their states
would not fit together, and plain decoding is measured first and last: what lies between its two speeds is noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from benchmarks.batch_turns import BEGUN, turns_of
from benchmarks.gpu_retrieval import Asked
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import CellShape
from glimpse.bench.results import Table
from glimpse.bench.tradeoff.modes import Mode
from glimpse.drafting.slowfast import SlowFastDrafter
from glimpse.engine.build import build_engine
from glimpse.engine.loaded import Loaded, load
from glimpse.engine.options import EngineOptions

LAW = "T=0.7"
COLUMNS = ("cell", "mode", "tokens/s", "times plain", "reckoned", "ms a step", "tokens a row and step",
           "steps as graphs", "trusted", "accepted, drafted")  # fmt: skip


def speeds(
    models: Models, text: Text, shape: CellShape, modes: Sequence[tuple[Mode, int]], tokens: int, turns: int
) -> Iterator[dict[str, Any]]:
    """One entry a mode, and plain decoding once more at the end; `modes` with the positions that each reads."""
    length = shape.context + tokens + BEGUN
    loaded = load(models.open(shape, length), length, shape.rows, SlowFastDrafter.scores)
    prompts = text.prompts(loaded.checkpoint.tokenizer, shape.context, shape.rows)
    asked = Asked(prompts, [shape.name] * shape.rows)
    for mode, budget in (*modes, modes[0]):
        found = _measured(loaded, asked, mode, budget, tokens, turns)
        yield {"cell": shape.name, "mode": mode.name, "budget": budget} | found


def _measured(loaded: Loaded, asked: Asked, mode: Mode, budget: int, tokens: int, turns: int) -> dict[str, Any]:
    """Some turns of a mode. A step of the engine is a launch: a round, where its length is foretold."""
    options = EngineOptions(**mode.options(budget))
    found = turns_of(loaded, lambda: build_engine(loaded, options), asked, LAW, tokens, turns)
    rows = [row for turn in found for row in turn["rows"]]
    graphs, eager = sum(row["graph_steps"] for row in rows), [row["eager_steps"] for row in rows]
    written = sum(len(text) for turn in found for text in turn["texts"])
    rounds = max(1, sum(row["rounds"] - row["plain"] for row in rows))
    return {
        "speeds": [turn["tokens"] / turn["seconds"] for turn in found],
        "step_ms": median(1e3 * turn["seconds"] / turn["steps"] for turn in found),
        "tokens_a_step": median(turn["tokens"] / turn["steps"] for turn in found) / len(asked.prompts),
        "graphs": graphs / max(1, graphs + sum(sum(own.values()) for own in eager)),
        "eager": sorted({reason for own in eager for reason in own}),
        "trusted": sum(row["trusted"] for row in rows) / max(1, written),
        "drafted": sum(row["drafted"] for row in rows) / rounds,
        "accepted": sum(row["accepted"] for row in rows) / rounds,
    }


def table(runs: Sequence[dict[str, Any]]) -> Table:
    """Measured beside reckoned; plain decoding's first speed is what the others are counted in."""
    plain = {own["cell"]: median(own["speeds"]) for own in reversed(runs) if own["mode"] == "plain"}
    return Table("Tokens a second, measured", COLUMNS, [_row(own, plain.get(own["cell"])) for own in runs])


def _row(own: dict[str, Any], plain: float | None) -> list[str]:
    speed = median(own["speeds"])
    return [
        own["cell"], own["mode"], f"{speed:.0f}", f"{speed / plain:.2f}" if plain else "-",
        f"{own['reckoned_speed']:.2f}" if "reckoned_speed" in own else "-", f"{own['step_ms']:.2f}",
        f"{own['tokens_a_step']:.2f}", f"{own['graphs']:.2f}",
        f"{own['trusted']:.2f}", f"{own['accepted']:.2f}, {own['drafted']:.1f}",
    ]  # fmt: skip
