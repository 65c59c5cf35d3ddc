"""`glimpse compare`: plain beside speculative decoding, in one process and on the same weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TextIO

from glimpse.cli import _session, demo_text, jsonout, prompts, report, verdict
from glimpse.cli.failures import DONE, INTERRUPTED, complain
from glimpse.cli.options import ExplainOptions, ModelOptions, OutputOptions, PromptOptions, StreamOptions, given, option
from glimpse.cli.progress import Bars
from glimpse.cli.sampling_options import SamplingOptions
from glimpse.cli.writer import DRAFTED, Writer
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from glimpse.cli.contract import Model
    from glimpse.outputs import Comparison, GenerationOutput, StreamChunk


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """A prompt for those who have none at hand."""

    demo: Annotated[
        bool,
        option(
            "Prompt",
            f"A question about {demo_text.TOKENS:,} tokens of Python's own reference (--prompt asks another).",
            "--demo",
        ),
    ] = False
    demo_edit: Annotated[
        bool,
        option("Prompt", "An edit of code that comes with Python (--prompt asks for another one).", "--demo-edit"),
    ] = False

    @property
    def any(self) -> bool:
        """Whether a prompt of ours is asked for."""
        return self.demo or self.demo_edit

    def refuse(self, prompt: PromptOptions) -> None:
        """Raises ArgumentError for two texts at once."""
        if self.demo and self.demo_edit:
            raise ArgumentError("--demo and --demo-edit bring a text each: leave one of them out")
        if self.any and prompt.prompt_file is not None:
            name = "--demo-edit" if self.demo_edit else "--demo"
            raise ArgumentError(
                f"{name} brings its own text: leave out --prompt-file (--prompt may ask something else)"
            )


def compare(
    model: ModelOptions,
    sampling: SamplingOptions,
    prompt: PromptOptions,
    stream: StreamOptions,
    output: OutputOptions,
    demo: DemoOptions,
    explain: ExplainOptions,
) -> int:
    """Decode a prompt twice, plainly and with drafts: the same text? how much sooner? which drafts were accepted?"""
    sampling.refuse_what_is_not_shown(json=output.json)
    if (sampling.n or 1) > 1:
        raise ArgumentError(f"compare decodes one text both ways: --n {sampling.n} must be 1")
    if model.drafter == "none":
        raise ArgumentError("compare sets drafting beside plain decoding: --drafter none would be the same twice")
    explain.refuse_what_is_not_shown(model, quiet=output.quiet)
    demo.refuse(prompt)
    if demo.any:
        own = demo_text.EDIT_SAMPLING if demo.demo_edit else demo_text.SAMPLING
        sampling = replace(sampling, **{**own, **given(sampling)})
    text = None if demo.any else prompts.read(prompt)
    params = sampling.params()
    with (
        jsonout.kept_clean(output.json) as stdout,
        Bars(quiet=output.quiet) as bars,
        _session.session(model, bars) as llm,
    ):
        ids = prompts.encode(text or _demo_prompt(llm, prompt, demo), prompt, llm)
        view = _View(Writer(show=not output.json, at_once=stream.no_stream), bars)
        try:
            comparison = llm.compare(ids, params, on_chunk=view)
        except KeyboardInterrupt:
            return _interrupted(llm, len(ids), view, output, stdout)
        bars.clear()
        _show(comparison, llm, view.writer, output, explain, stdout)
        return DONE


class _View:
    """Shows the speculative text as it is written; the plain one, which should be the same, is only waited for."""

    def __init__(self, writer: Writer, bars: Bars) -> None:
        self.writer = writer
        self.finished: GenerationOutput | None = None
        self._bars = bars

    def __call__(self, chunk: StreamChunk) -> None:
        self._bars.clear()
        self.writer.write(chunk)
        self.finished = chunk.output
        if self.finished is not None:
            self.writer.finish()
            self._bars("plain", 0, 0)


def _demo_prompt(llm: Model, prompt: PromptOptions, demo: DemoOptions) -> str:
    if demo.demo_edit:
        return demo_text.edit(lambda text: len(llm.tokenizer.encode(text)), prompt.prompt or demo_text.EDIT)
    return demo_text.prompt(lambda text: len(llm.tokenizer.encode(text)), prompt.prompt or demo_text.QUESTION)


def _show(
    comparison: Comparison, llm: Model, writer: Writer, output: OutputOptions, explain: ExplainOptions, stdout: TextIO
) -> None:
    if output.json:
        jsonout.emit(comparison.to_json(), stdout)
        return
    if writer.marks:
        report.show(f"(tokens shown in {DRAFTED} were drafted and accepted)")
    report.show("", *verdict.of_comparison(comparison, llm))
    if explain.explain:
        report.show(*report.choices(comparison.speculative.speculation))
    if not output.quiet:
        report.show(report.telling(comparison.speculative.settings), stderr=True)


def _interrupted(llm: Model, prompt_tokens: int, view: _View, output: OutputOptions, stdout: TextIO) -> int:
    written = view.writer
    if view.finished is None:
        written.finish()
    if output.json:
        own = view.finished.to_json() if view.finished else jsonout.interrupted(written, prompt_tokens, llm.settings)
        unknown = dict.fromkeys(("baseline", "identical", "first_divergence", "speedup", "predicted_speedup"))
        jsonout.emit({"speculative": own, **unknown}, stdout)
    complain(f"interrupted after {len(written.token_ids):,} speculative tokens, before there was anything to compare")
    return INTERRUPTED
