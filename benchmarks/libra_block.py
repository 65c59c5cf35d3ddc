"""LibraSpec over the blocks of a trained adapter: as `libra` does over self-drafted ones.

The blocks that `benchmarks.block_acceptance` kept (its result file must be there) are replayed under the pacers' own
code, priced by measured step-time surfaces: no clock is read. A block costs the masks of *one group*, as if the drafter
had known where the round would end, or of *all groups*, one wherever a round may end ("parallel"); a mask costs as much
as a verified token in the tuned layers. *Mapped*: with the chances of a map that was fitted to every second text, from
the margin, the probability of the token and its place. All are replayed on the other texts, of 50 to 900 tokens, at
the prices of the surfaces' longer ones. Intervals are bootstrapped over texts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.gpu_block import LAWS
from benchmarks.libra import Texts, compared, findings, made_up
from benchmarks.libra_block_beliefs import Map, as_offered, said, taught
from benchmarks.libra_reliability import figure, judged
from benchmarks.libra_surfaces import RowSurface, surfaces
from benchmarks.libra_traces import Start, starts_of
from glimpse.bench.results import Table, read_result
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.planning.models import DEMO_SPEC

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SIZE = 8
KINDS: Mapping[str, tuple[int, bool]] = {
    "one group": (1, False),
    "all groups": (SIZE + 1, False),
    "one group, mapped": (1, True),
}
"""Groups of masks that a block costs, and whether a map's chances are taken."""
GPU = ["h200 demo 8000x8", "h200 llama-3.1-8b 8000x1", "h200 llama-3.1-8b 8000x16"]
CPU = "cpu demo 4000x1"
"""There all groups cost several plain steps, so that no pacer of lengths has anything to win: `pacing.riding` leaves
groups out."""


def texts_of(settings: Mapping[str, object], mode: str) -> tuple[Texts, Texts]:
    """The blocks of one mode, text by text, as their drafter offers them: those to fit to, and the others."""
    if settings["drafts"] is None:
        texts = [[_shortened(start) for start in text] for text in made_up(mode)]
    else:
        runs = read_result(RESULTS / str(settings["drafts"])).runs
        kept = [text for run in runs if f" {mode} " in run["cell"] for text in run["texts"] if text["starts"]]
        # The text ends before it could say how right the last blocks were.
        texts = [[as_offered(start) for start in starts_of(text)[:-SIZE]] for text in kept]
        texts = [text for text in texts if text]
    return texts[::2], texts[1::2]


def _shortened(start: Start) -> Start:
    return Start(start.confidence[:SIZE], (), start.margin[:SIZE], min(start.right, SIZE))


def price(surface: RowSurface, groups: int, tuned: float) -> float:
    """Seconds of the masks of so many groups through the share `tuned` of the layers."""
    return tuned * (surface.full(groups * SIZE) - surface.full(0))


def replayed(settings: Mapping[str, object], surface: RowSurface, kind: str, mode: str) -> dict:
    """Every arm over the blocks of one mode on one surface."""
    groups, mapped = KINDS[kind]
    fitted, texts = texts_of(settings, mode)
    texts = Map.fitted(fitted).told(texts) if mapped else texts
    tuned = int(str(settings["layers"])) / DEMO_SPEC.layers
    return compared(texts, surface, kind, int(str(settings["requests"])), price(surface, groups, tuned), SIZE)


def reliability(settings: Mapping[str, object], folder: Path) -> Table:
    """What confidences are worth, on the texts that no map was fitted to; draws the figure."""
    panels, rows = {}, []
    for mode in LAWS:
        fitted, texts = texts_of(settings, mode)
        found = Map.fitted(fitted)
        beliefs: dict[str, Callable] = {
            "probability": said, "probability, as taught": taught, "margin, probability, place": mapped_by(found),
        }  # fmt: skip
        panels[mode] = {name: judged(texts, believe) for name, believe in beliefs.items()}
        for name, own in panels[mode].items():
            rows.append([f"{mode}, {name}", f"{len(own.right)}", f"{own.log_loss:.3f}", f"{own.error:.3f}"])
        rows.append([f"{mode}, the map's weights", " ".join(f"{weight:+.2f}" for weight in found.weights), "", ""])
    figure(panels, folder / "libra-block-reliability.svg")
    title = "Confidences of block tokens, on texts that no map was fitted to"
    return Table(title, ("belief", "tokens", "log-loss", "calibration error"), rows)


def mapped_by(found: Map) -> Callable:
    """A map as a belief."""
    return lambda texts: [found.chances(start) for text in texts for start in text]


def body(bench: Bench) -> Findings:
    settings, known = bench.settings, surfaces(RESULTS)
    cells: dict[tuple[str, str], Sequence[dict]] = {}
    for kind in KINDS:
        for mode in LAWS:
            cells[kind, mode] = [
                bench.cell(f"{kind} {mode} {name}", partial(replayed, settings, known[name], kind, mode))
                for name in settings["surfaces"][kind]
            ]
    rivals = ("the best fixed length", "plain decoding")
    return findings(cells, rivals, reliability(settings, bench.options.out), of="blocks, ")


SUITE = Suite(
    name="libra_block",
    summary=__doc__.splitlines()[0],
    settings={
        "drafts": "cpu-block_acceptance.json",
        "layers": 15,
        "surfaces": {"one group": [*GPU, CPU], "all groups": GPU, "one group, mapped": [*GPU, CPU]},
        "requests": 6,
    },
    quick={"drafts": None, "surfaces": {kind: [CPU] for kind in KINDS}, "requests": 1},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, ROOT))
