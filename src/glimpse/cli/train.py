"""`glimpse train block`: an adapter with which the target drafts blocks for itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glimpse.cli import jsonout
from glimpse.cli.commands import command
from glimpse.cli.failures import DONE, complain
from glimpse.cli.options import OutputOptions, given, option
from glimpse.cli.progress import Bars
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from glimpse.training.loop import Point, Trainer
    from glimpse.training.recipe import Recipe

train = typer.Typer(name="train", help="Train what a drafter needs.", no_args_is_help=True)
_WHAT, _RECIPE, _RUN = "What is trained", "Recipe", "The run"


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """What is trained, and on what."""

    model: Annotated[
        str, option(_WHAT, "demo, a checkpoint folder or a GGUF file. Default: demo.", "--model", "-m")
    ] = "demo"
    text: Annotated[
        str | None,
        option(
            _WHAT,
            "Required: a folder of UTF-8 texts, and .npy files of token ids (the model's outputs).",
            "--text",
        ),
    ] = None
    out: Annotated[
        str | None,
        option(
            _WHAT,
            "Required: the adapter's file; beside it .log and .state, by which the same command goes on.",
            "--out",
        ),
    ] = None
    dtype: Annotated[
        str | None, option(_WHAT, "float32, bfloat16, or auto: bfloat16 on a GPU, else float32.", "--dtype")
    ] = None
    device: Annotated[
        str | None, option(_WHAT, "cpu, cuda, cuda:N or auto: a GPU if one can be used, else the CPU.", "--device")
    ] = None
    minutes: Annotated[float | None, option(_RUN, "Stop after so many; the same command goes on.", "--minutes")] = None
    every: Annotated[
        int | None, option(_RUN, "Steps between looks at held-out text, when all is saved. Default: 100.", "--every")
    ] = None
    threads: Annotated[int | None, option(_RUN, "CPU threads. Default: PyTorch's choice.", "--threads")] = None


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """How it is trained: `glimpse.training.recipe.Recipe`."""

    size: Annotated[int | None, option(_RECIPE, "Tokens of a block. Default: 8.", "--size")] = None
    layers: Annotated[int | None, option(_RECIPE, "Last layers that are tuned. Default: 15.", "--layers")] = None
    rank: Annotated[int | None, option(_RECIPE, "Rank of the changes. Default: 96.", "--rank")] = None
    inner: Annotated[int | None, option(_RECIPE, "Width of the calibrator; 0: none. Default: 2048.", "--inner")] = None
    steps: Annotated[int | None, option(_RECIPE, "Steps in all. Default: 4000.", "--steps")] = None
    length: Annotated[int | None, option(_RECIPE, "Tokens of a sequence. Default: 1024.", "--length")] = None
    sequences: Annotated[int | None, option(_RECIPE, "Sequences of a step. Default: 16.", "--sequences")] = None
    branches: Annotated[int | None, option(_RECIPE, "Groups of a sequence. Default: 96.", "--branches")] = None
    rate: Annotated[float | None, option(_RECIPE, "Highest learning rate. Default: 0.003.", "--rate")] = None
    decay: Annotated[
        float | None, option(_RECIPE, "A place i counts exp(-i / decay) as much. Default: 4.", "--decay")
    ] = None
    distil: Annotated[
        float | None, option(_RECIPE, "Weight of the target's laws against the text. Default: 0.5.", "--distil")
    ] = None
    seed: Annotated[int | None, option(_RECIPE, "Of weights, places and order. Default: 0.", "--seed")] = None


def train_block(options: BlockOptions, recipe: RecipeOptions, output: OutputOptions) -> int:
    """Train an adapter for --drafter block: the last layers' projections for mask tokens, all else frozen."""
    with jsonout.kept_clean(output.json) as stdout, Bars(quiet=output.quiet) as bars:
        trainer = _trainer(options, recipe, bars)
        points: list[Point] = []

        def hear(point: Point) -> None:
            points.append(point)
            if not output.quiet:
                complain(_line(point, trainer.recipe.steps))

        every = options.every or 100
        if not output.quiet:
            complain(_begun(trainer.recipe, every))
        done = trainer.run(hear, every=every, seconds=options.minutes and 60 * options.minutes)
        if output.json:
            jsonout.emit(
                {"done": done, "adapter": str(trainer.out), "points": [_as_json(one) for one in points]}, stdout
            )
        elif not output.quiet:
            said = f"--drafter block --adapter {trainer.out}" if done else "not done; the same command goes on"
            complain(f"{trainer.out}: {said}")
    return DONE


def _trainer(options: BlockOptions, recipe: RecipeOptions, bars: Bars) -> Trainer:
    if not options.text or not options.out:
        raise ArgumentError("glimpse train block needs --text FOLDER and --out FILE")
    for name, value in (("every", options.every), ("minutes", options.minutes)):
        if value is not None and value <= 0:
            raise ArgumentError(f"--{name} must be more than 0, not {value:g}")
    if options.dtype == "float16":
        raise ArgumentError("dtype float16 is too coarse to train in; use bfloat16 or float32")
    import torch

    from glimpse.engine.machine import MachineOptions
    from glimpse.engine.place import place
    from glimpse.model import open_model
    from glimpse.training.loop import Trainer
    from glimpse.training.place import check_out
    from glimpse.training.recipe import Recipe
    from glimpse.training.texts import check_folder, read_corpus

    own, out, folder = Recipe(**given(recipe)), Path(options.out), Path(options.text)
    check_folder(folder)
    check_out(out, folder)
    machine = MachineOptions(
        dtype=options.dtype or "auto",
        device=options.device or "auto",
        max_context=None,
        max_batch_size=1,
        threads=options.threads,
        seed=None,
    )
    if machine.threads:
        torch.set_num_threads(machine.threads)
    device = place(machine.device).device
    dtype = machine.dtype_on(device)
    checkpoint = open_model(options.model, dtype=dtype, device=device, progress=lambda i, n: bars("weights", i, n))
    bars.clear()
    if recipe.layers is not None and recipe.layers > checkpoint.spec.layers:
        raise ArgumentError(f"--layers {recipe.layers}: this model has {checkpoint.spec.layers}; ask for no more")
    corpus = read_corpus(folder, checkpoint.tokenizer, own.length, checkpoint.spec.vocab_size)
    return Trainer(checkpoint, corpus, own, out)


def _begun(recipe: Recipe, every: int) -> str:
    """What is to come, as on a CPU the first line after it may be an hour away."""
    return (
        f"training: {recipe.steps:,} steps of {recipe.sequences:,} x {recipe.length:,} tokens; a line every "
        f"{every:,} steps"
    )


def _line(point: Point, steps: int) -> str:
    apart = ", ".join(f"{name} {accepted:.2f}" for name, accepted in point.accepted_by_text.items())
    return (
        f"step {point.step} of {steps}: loss {point.loss:.3f}, held out {point.held_loss:.3f}; "
        f"{point.accepted:.2f} drafts accepted of held-out text ({apart}); {point.seconds:.0f} s"
    )


def _as_json(point: Point) -> dict[str, object]:
    return {one.name: getattr(point, one.name) for one in fields(point)}


command(train, "block", train_block, (BlockOptions, RecipeOptions, OutputOptions))
