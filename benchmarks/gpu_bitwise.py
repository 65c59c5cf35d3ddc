"""What `exact="bitwise"` costs on a GPU: steps and the reading of a prompt in both modes, in turns, in one run.

    PYTHONPATH=src:. python3 -m benchmarks.gpu_bitwise --model demo.gguf --ids ids.npz --out OUT --commit HASH \
        --cells 8000x64,8000x8,8000x1,demo.gguf@llama-3.1-8b:8000x16,demo.gguf@llama-3.1-8b:8000x1

Both modes run over the same weights, rows and cache; a turn times every step in one mode and then in the other, the
next turn in the opposite order. A draft step is the sparse drafter's, a verification reads eight tokens a row. A prompt
is read alone, in the parts that the engine reads it in, from an idle device to an idle device, so that what the host
takes for its launches counts. No cell begins after --seconds; finished ones are kept, and the same command goes on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.gpu_profile import opened
from glimpse.bench.decode.cell import SAMPLED
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.on_device.cell import DeviceCell
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import CellShape, names_drafts, parse_cell
from glimpse.bench.decode.steps import EIGHT, measure_steps, timing
from glimpse.bench.decode.suite import Suite
from glimpse.bench.floors import Floors, Machine, measure_machine
from glimpse.bench.report import shown
from glimpse.bench.results import Table, Target
from glimpse.bench.timing import interleave
from glimpse.cache.sequence import Sequence as CachedSequence
from glimpse.engine.device.bitwise import BitwiseReader
from glimpse.engine.device.prefill import CHUNK, Scores, chunk_of, read
from glimpse.engine.device.rounds import DeviceRounds
from glimpse.errors import ArgumentError, GlimpseError

CELLS = "8000x64,8000x8,8000x1"
LEAST_ROWS = 16
"""The aims are for batches of at least so many rows."""
AIMS = {"plain": 1.15, "verify 8": 1.3, "verify 8, no importance": 1.3, "prefill": 1.5}
"""Time in the bitwise mode over time in the other, at most (DESIGN section 8); a draft step has no aim."""
TIMED = {
    "plain": ("plain",), "verify 8": ("verify", str(EIGHT)), "verify 8, no importance": ("verify_8", "without"),
    "draft": ("draft",),
}  # fmt: skip
"""Steps by name, and where `measure_steps` has them."""
TEMPERATURE = 0.7
COLUMNS = ("cell", "step", "fast, ms", "bitwise, ms", "bitwise / fast", "fast / floor", "bitwise / floor")
PROMPT = ("cell", "tokens", "fast, tokens/s", "bitwise, tokens/s", "bitwise / fast, time")


@dataclass(frozen=True, slots=True)
class Read:
    """How a prompt is read."""

    part: Callable[[torch.Tensor, int, Scores | None], object]
    """part(tokens [n], start, scores)."""
    most: int
    """Tokens of a part, at most."""

    def all(self, tokens: torch.Tensor, scores: Scores) -> None:
        """Reads a whole prompt [n]; its last part leaves its importance in `scores`."""
        start, length = 0, len(tokens)
        while start < length:
            stop = start + chunk_of(length - start, self.most)
            self.part(tokens[start:stop], start, scores if stop == length else None)
            start = stop


@dataclass(frozen=True, slots=True)
class BitwiseMeasuring:
    """Cells in both modes (`glimpse.bench.decode.suite.Measures`)."""

    models: Models
    text: Text
    machine: Machine
    budget: int = 512
    turns: int = 3
    repeats: int = 6
    """Times a step is timed in a turn; plain ones twice as often."""

    @property
    def settings(self) -> dict[str, Any]:
        """For the result file and the journal."""
        return {
            "temperature": TEMPERATURE, "sampled": SAMPLED, "budget": self.budget, "turns": self.turns,
            "repeats": self.repeats, "dtype": str(self.models.dtype).removeprefix("torch."), "text": self.text.label,
        }  # fmt: skip

    def cell(self, shape: CellShape, say: Callable[[str], None]) -> dict[str, Any]:
        """Steps and prefill of one cell. Raises ArgumentError for a model that the bitwise mode does not do."""
        with torch.inference_mode():
            cell = opened(shape, self.models, self.text, self.budget)
            try:
                say(f"prompts read in {cell.prefill_s:.1f} s")
                return self._measured(shape, cell, say)
            finally:
                cell.close()

    def _measured(self, shape: CellShape, cell: DeviceCell, say: Callable[[str], None]) -> dict[str, Any]:
        modes = modes_of(cell)
        steps = self._steps(cell, modes)
        say("steps timed")
        prefill = self._prefill(cell, modes)
        return {
            "name": shape.name, "context": shape.context, "rows": shape.rows, "how": cell.how,
            "dtype": str(cell.dtype).removeprefix("torch."), "steps": steps, "prefill": prefill,
        }  # fmt: skip

    def _steps(self, cell: DeviceCell, modes: dict[str, DeviceRounds]) -> dict[str, Any]:
        floors = Floors(cell.spec, cell.context, cell.rows, self.machine, cell.dtype)

        def turn(rounds: DeviceRounds) -> dict[str, Any]:
            cell.batch.rounds = rounds
            cell.resample(TEMPERATURE, 0)
            return measure_steps(cell, floors, [EIGHT], self.budget, self.repeats)

        found = interleave({name: lambda own=own: turn(own) for name, own in modes.items()}, self.turns, warm_up=0)
        return {step: compared({name: [_at(one, path) for one in own] for name, own in found.items()})
                for step, path in TIMED.items()}  # fmt: skip

    def _prefill(self, cell: DeviceCell, modes: dict[str, DeviceRounds]) -> dict[str, Any]:
        """Reads the first row's prompt again and again, over pages of the cell: nothing is timed in it afterwards."""
        length, pool = cell.context, cell.batch.pool
        tokens, sequence = cell.batch.rows.tokens[0, :length].clone(), CachedSequence(pool, expected=length)
        sequence.reserve(length)
        readers = {"fast": fast(modes["fast"], sequence), "bitwise": bitwise(modes["bitwise"], sequence)}
        recall = cell.batch.recall
        scores = Scores(recall.fresh[:, 0], recall.reference[:, 0])

        def whole(read: Read) -> float:
            return cell.clock.run(lambda: read.all(tokens, scores))

        arms = {name: lambda own=own: whole(own) for name, own in readers.items()}
        seconds = interleave(arms, self.turns)
        sequence.release()
        middle = {name: median(own) for name, own in seconds.items()}
        return {
            "tokens": length, "seconds": seconds, "ratio": middle["bitwise"] / middle["fast"],
            "tokens_per_s": {name: length / own for name, own in middle.items()},
        }  # fmt: skip


def modes_of(cell: DeviceCell) -> dict[str, DeviceRounds]:
    """The cell's own rounds and bitwise ones over the same rows. Raises ArgumentError where the mode cannot be had."""
    batch, own = cell.batch, cell.batch.rounds
    settings = replace(own.settings, bitwise=True)
    other = DeviceRounds(batch.decoder, batch.pool, batch.rows, batch.recall, settings, own.vocab)
    return {"fast": own, "bitwise": other}


def fast(rounds: DeviceRounds, sequence: CachedSequence) -> Read:
    """As the engine does."""

    def part(tokens: torch.Tensor, start: int, scores: Scores | None) -> None:
        read(rounds.forward, sequence.pool, sequence.extents(0, start + len(tokens)), tokens, start, scores)

    return Read(part, CHUNK)


def bitwise(rounds: DeviceRounds, sequence: CachedSequence) -> Read:
    """The same in the bitwise mode."""
    reader = BitwiseReader(rounds._core)
    return Read(partial(reader.read, sequence), reader.most)


def compared(turns: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """One step in both modes, all turns together; `turns`: the ratio in each of them."""
    both = {
        name: timing([own for turn in found for own in turn["all"]], found[0]["floor"]) for name, found in turns.items()
    }
    pairs = zip(turns["bitwise"], turns["fast"], strict=True)
    return {
        **both, "ratio": both["bitwise"]["median"] / both["fast"]["median"],
        "turns": [slow["median"] / quick["median"] for slow, quick in pairs],
    }  # fmt: skip


def _at(found: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for name in path:
        found = found[name]
    return found


def ratios(cell: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """What has an aim, and its ratio."""
    for name in AIMS:
        yield name, (cell["prefill"] if name == "prefill" else cell["steps"][name])["ratio"]


def targets(cells: Sequence[dict[str, Any]]) -> list[Target]:
    """The aims of DESIGN section 8, of cells with enough rows."""
    return [
        Target(f"{cell['name']}: {name}, bitwise / fast", f"<= {AIMS[name]:g}", ratio)
        for cell in cells if cell["rows"] >= LEAST_ROWS for name, ratio in ratios(cell)
    ]  # fmt: skip


def tables(cells: Sequence[dict[str, Any]]) -> list[Table]:
    """Steps; reading a prompt."""
    steps = [_line(cell["name"], name, own) for cell in cells for name, own in cell["steps"].items()]
    prompts = [
        (cell["name"], f"{own['tokens']:,}", *(f"{own['tokens_per_s'][mode]:,.0f}" for mode in ("fast", "bitwise")),
         f"{own['ratio']:.2f}")
        for cell in cells for own in (cell["prefill"],)
    ]  # fmt: skip
    return [Table("Steps in both modes, in turns", COLUMNS, steps), Table("A prompt read alone", PROMPT, prompts)]


def _line(cell: str, step: str, own: dict[str, Any]) -> list[str]:
    quick, slow = own["fast"], own["bitwise"]
    return [cell, step, f"{quick['median'] * 1e3:.3f}", f"{slow['median'] * 1e3:.3f}", f"{own['ratio']:.2f}",
            f"{quick['ratio']:.2f}", f"{slow['ratio']:.2f}"]  # fmt: skip


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--ids", type=Path, help=".npz of token ids (default: the text that Python ships)")
    parser.add_argument("--cells", default=CELLS, help=f"[MODEL[@SHAPE]:]CONTEXTxROWS, separated by commas ({CELLS})")
    parser.add_argument("--budget", type=int, default=512)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=6, help="of a step in a turn")
    parser.add_argument("--seconds", type=float, default=150, help="begin no cell after this")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, required=True, help="folder for the result file and the journal")
    parser.add_argument("--commit", help="the commit of this code, where there is no git")
    given = parser.parse_args(arguments)
    if min(given.turns, given.repeats) < 1:
        raise ArgumentError("--turns and --repeats must be at least 1")
    return given


def shapes(given: argparse.Namespace) -> list[CellShape]:
    """The cells asked for. Raises ArgumentError where one names draft lengths."""
    names = given.cells.split(",")
    for name in names:
        if names_drafts(name):
            raise ArgumentError(f"--cells: {name!r} names draft lengths, but a verification here reads 8 tokens")
    return [parse_cell(name, given.model, [EIGHT]) for name in names]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures; 0 if all cells were, 3 if something is left."""
    try:
        given = options_of(arguments)
        asked, device = shapes(given), torch.device(given.device)
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        models, machine = Models(dtype, device), measure_machine(device, dtype)
        measuring = BitwiseMeasuring(models, Text(ids=given.ids), machine, given.budget, given.turns, given.repeats)
        suite = Suite("bitwise", measuring, given.out, given.seconds, given.commit, tables=tables, targets=targets)
        suite.run(asked)
    except GlimpseError as error:
        print(f"gpu_bitwise: {error}", file=sys.stderr)
        return error.exit_code
    if suite.result is None:
        return 3
    print(shown(suite.result))
    return 0 if len([run for run in suite.result.runs if "steps" in run]) == len(asked) else 3


if __name__ == "__main__":
    sys.exit(main())
