"""`glimpse generate`: one prompt, its text as it is written, a small report."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, TextIO

from glimpse.cli import _session, jsonout, prompts, report
from glimpse.cli.failures import DONE, INTERRUPTED, complain
from glimpse.cli.options import ExplainOptions, ModelOptions, OutputOptions, PromptOptions, StreamOptions
from glimpse.cli.progress import Bars
from glimpse.cli.sampling_options import SamplingOptions
from glimpse.cli.writer import Writer
from glimpse.errors import GlimpseError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from glimpse.outputs import GenerationOutput, TextStream


def generate(
    model: ModelOptions,
    sampling: SamplingOptions,
    prompt: PromptOptions,
    stream: StreamOptions,
    output: OutputOptions,
    explain: ExplainOptions,
) -> int:
    """Write text from a prompt, drafted tokens marked, with a small report at the end."""
    sampling.refuse_what_is_not_shown(json=output.json)
    explain.refuse_what_is_not_shown(model, quiet=output.quiet)
    text = prompts.read(prompt)
    params = sampling.params()
    with (
        jsonout.kept_clean(output.json) as stdout,
        Bars(quiet=output.quiet) as bars,
        _session.session(model, bars) as llm,
    ):
        ids = prompts.encode(text, prompt, llm)
        if (sampling.n or 1) > 1:
            return _several(lambda: llm.generate(ids, params), bars, output, explain, stdout)
        writer = Writer(show=not output.json, at_once=stream.no_stream)
        return _show(follow(llm.stream(ids, params), writer, bars), output, explain, stdout)


def follow(chunks: TextStream, writer: Writer, bars: Bars) -> GenerationOutput:
    """Write chunks as they come; the output, which Ctrl-C ends where it is."""
    try:
        with closing(chunks), suppress(KeyboardInterrupt):
            for chunk in chunks:
                bars.clear()
                writer.write(chunk)
    except GlimpseError:
        writer.finish()
        raise
    finally:
        bars.clear()
    output = chunks.output
    # Letters that waited for their other bytes, or for a stop that did not come.
    writer.put(output.text.removeprefix(writer.text))
    writer.finish()
    return output


def _show(written: GenerationOutput, output: OutputOptions, explain: ExplainOptions, stdout: TextIO) -> int:
    if output.json:
        jsonout.emit(written.to_json(), stdout)
    elif not output.quiet:
        report.show(report.of_output(written, explain=explain.explain), stderr=True)
    if written.finish_reason != "abort":
        return DONE
    complain(f"interrupted after {len(written.token_ids):,} tokens")
    return INTERRUPTED


def _several(
    generate: Callable[[], Sequence[GenerationOutput]],
    bars: Bars,
    output: OutputOptions,
    explain: ExplainOptions,
    stdout: TextIO,
) -> int:
    """Several texts of one prompt: nothing is streamed. What was finished is shown even where others broke off."""
    from glimpse.outputs import BrokenOff

    try:
        outputs = generate()
    except BrokenOff as broken:
        bars.clear()
        _show_all(broken.outputs, output, explain, stdout)
        raise
    bars.clear()
    _show_all(outputs, output, explain, stdout)
    return DONE


def _show_all(
    outputs: Sequence[GenerationOutput | None], output: OutputOptions, explain: ExplainOptions, stdout: TextIO
) -> None:
    """The JSON object holds them as `outputs`; what broke off is null there."""
    if output.json:
        jsonout.emit({"outputs": [one and one.to_json() for one in outputs]}, stdout)
        return
    for number, one in enumerate(outputs, 1):
        if one is None:
            continue
        writer = Writer()
        writer.put(f"[{number} of {len(outputs)}]\n{one.text}")
        writer.finish()
        if not output.quiet:
            report.show(report.of_output(one, explain=explain.explain), stderr=True)
