"""A batch recorded for its timeline, as it goes into the result file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from glimpse.bench.captures import settled
from glimpse.bench.decode.cell import SAMPLED
from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.runs import Say
from glimpse.bench.decode.shape import CellShape
from glimpse.bench.floors import Machine
from glimpse.bench.grow_adapter import adapter_label
from glimpse.bench.results import Result, Table, Target, write_whole
from glimpse.bench.timeline.draw import LEGEND, timeline
from glimpse.bench.timeline.lanes import IDLE, LETTERS, Lane, lanes_of
from glimpse.bench.timeline.record import Traffic, record
from glimpse.engine.build import build_engine
from glimpse.engine.loaded import load
from glimpse.engine.options import EngineOptions
from glimpse.engine.warming import warm_up


@dataclass(frozen=True, slots=True)
class TimelineMeasuring:
    """What all batches of a run share."""

    models: Models
    text: Text
    machine: Machine
    options: EngineOptions
    """Its adapter grows along with a twin (`Models.adapter`)."""
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def settings(self) -> dict[str, Any]:
        """For the result file and the journal."""
        own = {"adapter": adapter_label(self.options.adapter)} if self.options.adapter else {}
        return {
            "temperature": 0.7, "sampled": SAMPLED, "text": self.text.label, "traffic": asdict(self.traffic),
            "dtype": str(self.models.dtype).removeprefix("torch."), "options": asdict(self.options) | own,
        }  # fmt: skip

    def cell(self, shape: CellShape, say: Say) -> dict[str, Any]:
        """The lanes of one batch."""
        checkpoint = self.models.open(shape, shape.context + self.traffic.most)
        prompts = self.text.prompts(checkpoint.tokenizer, shape.context, shape.rows)
        loaded = load(checkpoint, shape.context + self.traffic.most, shape.rows)
        adapter = self.options.adapter and self.models.adapter(shape, self.options.adapter)
        engine = build_engine(loaded, self.options.changed(adapter=adapter))
        if self.models.device.type == "cuda":
            say(f"made ready: {warm_up(loaded, engine)}")
        seen, given_up, fresh = settled(lambda: record(loaded, engine, prompts, self.traffic), engine)
        lanes = lanes_of(seen, self.traffic.steps)
        return {
            "name": shape.name, "model": checkpoint.name, "context": shape.context, "rows": shape.rows,
            "given_up": given_up, "captured": fresh,
            "lanes": [{"slot": lane.slot, "steps": lane.steps, "starts": lane.starts} for lane in lanes],
        }  # fmt: skip


def tables(cells: Sequence[dict[str, Any]]) -> list[Table]:
    """What share of the rows' steps was what."""
    words = [words for _, words in LEGEND.values()]
    rows = [[cell["name"], str(_steps(cell)), *_shares(cell)] for cell in cells]
    return [Table("What rows did, share of steps", ["batch", "steps", *words, "nothing"], rows)]


def targets(cells: Sequence[dict[str, Any]]) -> list[Target]:
    """None: it is looked at."""
    return []


def draw(result: Result, folder: Path) -> list[Path]:
    """Writes the figure of each batch of a result file; returns the paths."""
    paths = []
    for run in (run for run in result.runs if "lanes" in run):
        options = result.settings["options"]
        lanes = [Lane(own["slot"], own["steps"], own["starts"]) for own in run["lanes"]]
        title = f"{run['name']}: what each row did"
        subtitle = f"{run['model']}, {options['drafter']} + {options['pacer']}, {result.device['name']}"
        path = folder / f"{result.device['kind']}-timeline-{_file(run['name'])}-{options['pacer']}.svg"
        write_whole(path, timeline(lanes, title, subtitle))
        paths.append(path)
    return paths


def _file(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in name)


def _steps(cell: dict[str, Any]) -> int:
    return max((len(lane["steps"]) for lane in cell["lanes"]), default=0)


def _shares(cell: dict[str, Any]) -> list[str]:
    counts = Counter("".join(lane["steps"] for lane in cell["lanes"]))
    return [f"{counts[letter] / max(1, counts.total()):.1%}" for letter in (*LETTERS.values(), IDLE)]
