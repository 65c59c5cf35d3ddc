"""Options of `glimpse bench`, and what they mean before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

import typer

from glimpse.cli.options import option
from glimpse.cli.parsing import real, whole
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from glimpse.bench.decode.prompts import Text
    from glimpse.bench.decode.shape import CellShape
    from glimpse.engine.place import Place

_CELLS, _WHERE, _RUN = "Cells", "Where and on what text", "Run"
Number = TypeVar("Number", int, float)
Shape = TypeVar("Shape", bound="CellShape")


@dataclass(frozen=True, slots=True)
class Usual:
    """The cells of a command where none are named, and their draft lengths."""

    context: int
    rows: tuple[int, ...]
    drafts: tuple[int, ...]

    @property
    def cells(self) -> list[str]:
        """As they are typed."""
        return [f"{self.context}x{count}" for count in self.rows]


@dataclass(frozen=True, slots=True)
class CellKind(Generic[Shape]):
    """How a command's cells are read."""

    parse: Callable[[str, str, Sequence[int]], Shape]
    """From a cell as it is typed, its model and draft lengths where it names none."""
    cpu: Usual
    gpu: Usual
    drafts: tuple[int, ...]
    """Draft lengths of cells that name none."""
    in_step: bool = False
    """Whether rows must stay in step, of which a CPU's engine keeps few."""
    bare: Callable[[str], str] = str
    """A cell without what only this command knows."""
    grid: bool = False
    """Whether a grid that names no rows has the usual ones, not one."""


@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """Which cells, on which text, where."""

    cells: Annotated[
        list[str],
        typer.Argument(
            metavar="CELL",
            help="CONTEXTxROWS, MODEL:CONTEXTxROWS or MODEL:CONTEXTxROWS:DRAFT+DRAFT, such as demo:8000x64:4+8. "
            "MODEL@llama-3.1-8b and MODEL@1.7b are twins of MODEL at that cost. Default: one small cell on a CPU.",
            show_default=False,
        ),
    ] = field(default_factory=list)
    model: Annotated[
        str | None, option(_CELLS, "What a cell without a model means. Default: demo.", "--model", "-m")
    ] = None
    context: Annotated[str | None, option(_CELLS, "Contexts, by commas: with --batch a grid.", "--context")] = None
    batch: Annotated[str | None, option(_CELLS, "Rows, by commas. Default: 1.", "--batch")] = None
    draft: Annotated[
        str | None,
        option(_CELLS, "Draft lengths where cells name none, by commas. Default: 4,8; fleet 3,7,10.", "--draft"),
    ] = None
    budget: Annotated[int | None, option(_CELLS, "Positions a sparse draft reads. Default: 512.", "--budget")] = None
    text: Annotated[
        str | None,
        option(_WHERE, "A folder of .txt files. Default: ../shared/data, else what Python's help() shows.", "--text"),
    ] = None
    ids: Annotated[str | None, option(_WHERE, "An .npz file of token ids instead of text.", "--ids")] = None
    device: Annotated[str, option(_WHERE, "auto, cpu, cuda or cuda:N. Default: auto.", "--device")] = "auto"
    dtype: Annotated[
        str | None, option(_WHERE, "float32, bfloat16 or float16. Default: bfloat16 on a GPU.", "--dtype")
    ] = None
    threads: Annotated[int | None, option(_WHERE, "CPU threads. Default: PyTorch's choice.", "--threads")] = None
    seconds: Annotated[float | None, option(_RUN, "No cell but the first begins after these seconds.", "--seconds")] = (
        None
    )
    out: Annotated[str, option(_RUN, "Folder of the result file. Default: bench-results.", "--out")] = "bench-results"
    commit: Annotated[str | None, option(_RUN, "The commit measured, where git is not there to ask.", "--commit")] = (
        None
    )
    fresh: Annotated[bool, option(_RUN, "Do not go on with an interrupted run.", "--fresh")] = False


@dataclass(frozen=True, kw_only=True)
class CellOptions(GridOptions):
    """The same, and the drafter."""

    drafter: Annotated[
        str, option(_CELLS, "Who drafts; on a GPU only sparse so far. Default: sparse.", "--drafter")
    ] = "sparse"
    adapter: Annotated[
        str | None,
        option(_CELLS, "The file of --drafter block; for a cell MODEL@SHAPE the one of MODEL.", "--adapter"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """How texts are written."""

    temperature: Annotated[
        str | None,
        option(_RUN, "Temperatures, by commas; above 0 with top-k 50 and top-p 0.9. Default: 0.7,0.", "--temperature"),
    ] = None
    pairs: Annotated[int | None, option(_RUN, "Plain and drafted runs in turn. Default: 5.", "--pairs")] = None
    cell_seconds: Annotated[
        float | None,
        option(_RUN, "Begin no further pair of a temperature after so many seconds. Default: 120.", "--cell-seconds"),
    ] = None


def shapes(options: GridOptions, device: torch.device, kind: CellKind[Shape]) -> list[Shape]:
    """The cells asked for, each once. Raises ArgumentError naming the first that is wrong."""
    from glimpse.bench.decode.host import refuse_rows
    from glimpse.model import resolve_model

    if options.model == "":
        raise ArgumentError("--model '' names no model; give demo, a folder or a GGUF file, or leave it out")
    if options.cells and (options.context or options.batch):
        raise ArgumentError("name cells, or a grid by --context and --batch, not both")
    usual = kind.gpu if device.type == "cuda" else kind.cpu
    asked, drafts = list(options.cells), kind.drafts
    if options.context or options.batch:
        contexts = numbers("--context", options.context, whole) or [usual.context]
        rows = numbers("--batch", options.batch, whole) or (usual.rows if kind.grid else (1,))
        asked = [f"{context}x{count}" for context in contexts for count in rows]
    if not asked:
        asked, drafts = usual.cells, usual.drafts
    _refuse_unread(options, [kind.bare(text) for text in options.cells])
    lengths = numbers("--draft", options.draft, whole) or drafts
    found = list(dict.fromkeys(kind.parse(text, options.model or "demo", lengths) for text in asked))
    for name in {shape.source for shape in found} - {"demo"}:
        resolve_model(name)
    for shape in found if kind.in_step and device.type != "cuda" else ():
        refuse_rows(shape.rows)
    return found


def _refuse_unread(options: GridOptions, cells: Sequence[str]) -> None:
    """Raises ArgumentError for a model or draft lengths where every cell names its own."""
    from glimpse.bench.decode.shape import names_drafts, names_model

    for name, value, named in (
        ("--model", options.model, names_model), ("--draft", options.draft, names_drafts),
    ):  # fmt: skip
        if value is not None and cells and all(map(named, cells)):
            raise ArgumentError(f"{name} {value!r} would not be read: every cell names its own; leave one of them out")


def numbers(name: str, text: str | None, parse: Callable[[str], Number]) -> list[Number]:
    """Numbers by commas; [] for none. Raises ArgumentError naming what is no such number."""
    try:
        return [parse(item.strip()) for item in text.split(",")] if text is not None else []
    except typer.BadParameter as error:
        raise ArgumentError(f"{name} {text!r}: {error.message}") from None


def seconds_of(name: str, value: float | None) -> float | None:
    """A time limit. Raises ArgumentError for one that is no time."""
    if value is not None and not value > 0:
        raise ArgumentError(f"{name} {value:g}: give more than 0 seconds")
    return value


def temperatures(text: str | None) -> tuple[float, ...]:
    """Those asked for. Raises ArgumentError for one that is negative."""
    asked = numbers("--temperature", text, real) or [0.7, 0.0]
    for value in asked:
        if not 0 <= value < 100:
            raise ArgumentError(f"--temperature {value:g}: give 0 (greedy) or more")
    return tuple(dict.fromkeys(asked))


def where(options: GridOptions) -> tuple[Place, torch.dtype]:
    """Device and dtype, as `LLM` chooses them. Raises ArgumentError for one that is unknown or not here."""
    from glimpse.engine.machine import MachineOptions
    from glimpse.engine.place import place

    machine = MachineOptions(
        dtype=options.dtype or "auto", device=options.device, max_context=None, max_batch_size=1,
        threads=options.threads, seed=None,
    )  # fmt: skip
    found = place(machine.device)
    return found, machine.dtype_on(found.device)


def text_of(options: GridOptions, context: int) -> Text:
    """Where prompts come from. Raises ArgumentError where there is nothing, or certainly not a prompt of `context`."""
    from pathlib import Path

    from glimpse.bench.decode.prompts import Text, shared_folder

    if options.ids is not None and options.text is not None:
        raise ArgumentError("--ids are read instead of text: leave out --text, or --ids")
    if options.ids is not None:
        text = Text(ids=_there("--ids", Path(options.ids), Path.is_file, "file"))
    elif options.text is not None:
        text = Text(folder=_there("--text", Path(options.text), Path.is_dir, "folder"))
    else:
        text = Text(folder=shared_folder())
    text.check(context)
    return text


def shortest(asked: Sequence[CellShape]) -> int:
    """The shortest context of all cells: where there is no text even for that, none can be measured."""
    return min(shape.context for shape in asked)


def refuse_budget(options: GridOptions, drafter: str) -> None:
    """Raises ArgumentError for a budget that the drafter asked for would never read."""
    if options.budget is not None and not reads_cache(drafter):
        raise ArgumentError(
            f"--budget {options.budget} means nothing to drafter {drafter!r}, which reads no cache; leave it out"
        )


def adapter_for(file: str | None, drafters: Iterable[str], what: str) -> str | None:
    """The adapter asked for, where any of the drafters takes one; `what` names them to people.

    Raises ArgumentError for one that nobody would read, for one that is missing, and for a file that is not there.
    """
    from pathlib import Path

    from glimpse.drafting import DRAFTERS
    from glimpse.drafting.block.shipped import adapter_file

    offered = [DRAFTERS.get(name) for name in drafters]
    takes = any(drafter.takes_adapter for drafter in offered)
    if file is None and any(drafter.needs_adapter for drafter in offered):
        raise ArgumentError(f"{what} needs --adapter FILE, which glimpse train block makes (demo: the demo model's)")
    if file is not None and not takes:
        raise ArgumentError(f"--adapter {file!r} means nothing to {what}; leave it out, or name block")
    return None if file is None else str(_there("--adapter", adapter_file(file), Path.is_file, "file"))


def reads_cache(drafter: str) -> bool:
    """Whether a drafter may draft by forwards over a part of the cache. Raises ArgumentError for an unknown name."""
    from glimpse.drafting import DRAFTERS

    offered = DRAFTERS.get(drafter)
    return bool(offered.needs_forward or offered.recalls)


def _there(name: str, path: Path, check: Callable[[Path], bool], kind: str) -> Path:
    if not check(path):
        raise ArgumentError(f"{name} {str(path)!r} is no {kind}")
    return path
