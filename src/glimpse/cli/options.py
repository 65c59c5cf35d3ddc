"""Options that more than one command takes, written once (those of `SamplingParams` are in `sampling_options`).

An option left out stays None: the defaults belong to `LLM`, to `SamplingParams` and to the checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from glimpse.errors import ArgumentError

_MODEL = "Model and drafting"
_PROMPT = "Prompt"
_OUTPUT = "Output"


def option(panel: str, text: str, *names: str, **more: Any) -> Any:
    """An option shown in the help's `panel`; `text` says what happens when it is left out."""
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False, **more)


def given(options: Any) -> dict[str, Any]:
    """The fields of an options dataclass that were given on the command line."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {name: value for name, value in values.items() if value is not None and value is not False and value != []}


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What `LLM` is opened with."""

    model: Annotated[
        str, option(_MODEL, "demo, a checkpoint folder or a GGUF file. Default: demo.", "--model", "-m")
    ] = "demo"
    drafter: Annotated[
        str | None,
        option(
            _MODEL,
            "Who drafts: none, lookup, suffix, racer, racer+suffix, sparse, sparse+racer, refresh, slowfast, block, "
            "auto (the one that pays), or a plug-in's name. Default: auto; lookup with another pacer or with "
            "rejection.",
            "--drafter",
        ),
    ] = None
    pacer: Annotated[
        str | None,
        option(
            _MODEL,
            "Who decides how far to draft: entropy, fixed, marginal, libraspec, fleet, synchronised, feedback, "
            "boundary. Default: the drafter's own, which is entropy for most.",
            "--pacer",
        ),
    ] = None
    acceptance: Annotated[
        str | None, option(_MODEL, "Rule: coupled, matched, rejection. Default: coupled.", "--acceptance")
    ] = None
    lossy: Annotated[
        str | None,
        option(
            _MODEL,
            "Give up exactness for speed: slowfast, or RULE[:STRENGTH] with cactus, mentored, r-fuzzy, fuzzy, "
            "cascade-opt, cascade-tok, ensemble, contrastive, typical, top-k, entropy-gated. Default: off.",
            "--lossy",
        ),
    ] = None
    draft_tokens: Annotated[
        int | None,
        option(
            _MODEL,
            "Length of a draft (fixed), or its longest; of a tree, nodes. Default: the pacer's own.",
            "--draft-tokens",
        ),
    ] = None
    budget: Annotated[
        float | None, option(_MODEL, "Share of the context that drafter sparse reads. Default: 0.1.", "--budget")
    ] = None
    budget_floor: Annotated[
        int | None,
        option(_MODEL, "Positions that it reads at least. Default: 256; drafter slowfast 2,308.", "--budget-floor"),
    ] = None
    refresh_sets: Annotated[
        str | None, option(_MODEL, "How drafter refresh chooses sets: heads, pages. Default: heads.", "--refresh-sets")
    ] = None
    refresh_layer: Annotated[
        int | None, option(_MODEL, "The layer, from 0, at which drafter refresh reads all.", "--refresh-layer")
    ] = None
    adapter: Annotated[
        str | None,
        option(
            _MODEL,
            "The file of drafter block, or for auto to choose it too, made by glimpse train block; demo: the demo "
            "model's, which block takes there by itself.",
            "--adapter",
        ),
    ] = None
    block_mode: Annotated[
        str | None,
        option(_MODEL, "When blocks are drafted: auto (by cost), parallel, sequential. Default: auto.", "--block-mode"),
    ] = None
    exact: Annotated[
        str | None,
        option(
            _MODEL,
            "tokens, or bitwise: the same bits in any batch and with any draft, slower, GPU only. Default: tokens.",
            "--exact",
        ),
    ] = None
    dtype: Annotated[
        str | None, option(_MODEL, "float32, bfloat16, float16 or auto: bfloat16 on a GPU, else float32.", "--dtype")
    ] = None
    device: Annotated[
        str | None, option(_MODEL, "cpu, cuda, cuda:N or auto: a GPU if one can be used, else the CPU.", "--device")
    ] = None
    max_context: Annotated[
        int | None,
        option(_MODEL, "Most tokens of prompt and output together. Default: the model's limit.", "--max-context"),
    ] = None
    threads: Annotated[int | None, option(_MODEL, "CPU threads. Default: PyTorch's choice.", "--threads")] = None

    def given(self) -> dict[str, Any]:
        """The options that were given, as keyword arguments of `LLM`."""
        return given(self)


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """Where the prompt comes from and how it is put to the model."""

    prompt: Annotated[str | None, option(_PROMPT, "The prompt; with a file, what follows it.", "--prompt")] = None
    prompt_file: Annotated[
        str | None, option(_PROMPT, "A UTF-8 text file; - reads standard input.", "--prompt-file")
    ] = None
    chat: Annotated[
        bool | None, option(_PROMPT, "Use the chat template. Default: when there is one.", "--chat/--no-chat")
    ] = None
    system: Annotated[str | None, option(_PROMPT, "The system message of the chat.", "--system")] = None


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How the text is shown."""

    no_stream: Annotated[bool, option(_OUTPUT, "Show the text when it is finished.", "--no-stream")] = False


def _usual_drafter(model: ModelOptions) -> str:
    from glimpse.engine.lossy import usual_drafter  # imports torch

    return usual_drafter(model.lossy, model.pacer, model.acceptance)


@dataclass(frozen=True, kw_only=True)
class ExplainOptions:
    """Why drafter auto did what it did."""

    explain: Annotated[
        bool,
        option(_OUTPUT, "With --drafter auto: what it chose, from which token on, and by which numbers.", "--explain"),
    ] = False

    def refuse_what_is_not_shown(self, model: ModelOptions, *, quiet: bool) -> None:
        """Raises ArgumentError where there is no choice to explain, or no place to print it."""
        if self.explain and (drafter := model.drafter or _usual_drafter(model)) != "auto":
            raise ArgumentError(
                f"--explain tells what drafter auto chose, and drafter {drafter} chooses nobody: "
                "add --drafter auto, or leave --explain out"
            )
        if self.explain and quiet:
            raise ArgumentError("--quiet hides the report, and --explain is a part of it: leave one of them out")


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What is written where; every command takes these."""

    json: Annotated[bool, option(_OUTPUT, "Print one JSON object on stdout and nothing else there.", "--json")] = False
    quiet: Annotated[bool, option(_OUTPUT, "No progress and no report.", "--quiet", "-q")] = False
    debug: Annotated[bool, option(_OUTPUT, "Show the traceback of an error.", "--debug")] = False
