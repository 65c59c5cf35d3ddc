"""`glimpse generate`: one prompt, its text as it is written, a small report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from glimpse.cli import _session, jsonout, prompts, report
from glimpse.cli.failures import DONE, INTERRUPTED, complain
from glimpse.cli.options import ModelOptions, OutputOptions, PromptOptions, StreamOptions
from glimpse.cli.progress import Bars
from glimpse.cli.sampling_options import SamplingOptions
from glimpse.cli.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glimpse.cli.contract import Model
    from glimpse.outputs import GenerationOutput, StreamChunk


def generate(
    model: ModelOptions, sampling: SamplingOptions, prompt: PromptOptions, stream: StreamOptions, output: OutputOptions
) -> int:
    """Write text from a prompt, drafted tokens marked, with a small report at the end."""
    sampling.refuse_what_is_not_shown(json=output.json)
    text = prompts.read(prompt)
    params = sampling.params()
    with (
        jsonout.kept_clean(output.json) as stdout,
        Bars(quiet=output.quiet) as bars,
        _session.session(model, bars) as llm,
    ):
        ids = prompts.encode(text, prompt, llm.tokenizer)
        if (sampling.n or 1) > 1:
            outputs = llm.generate(ids, params)
            bars.clear()
            return _show_all(outputs, output, stdout)
        writer = Writer(show=not output.json, at_once=stream.no_stream)
        finished = follow(llm.stream(ids, params), writer, bars)
        return _show(llm, len(ids), writer, finished, output, stdout)


def follow(chunks: Iterator[StreamChunk], writer: Writer, bars: Bars) -> GenerationOutput | None:
    """Write chunks as they come; the finished output, or None when Ctrl-C came before it."""
    finished = None
    try:
        for chunk in chunks:
            bars.clear()
            writer.write(chunk)
            finished = chunk.output
    except KeyboardInterrupt:
        finished = None
    finally:
        bars.clear()
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    writer.finish()
    return finished


def _show(
    llm: Model,
    prompt_tokens: int,
    writer: Writer,
    finished: GenerationOutput | None,
    output: OutputOptions,
    stdout: TextIO,
) -> int:
    whole = finished is not None and finished.finish_reason != "abort"
    if output.json:
        result = finished.to_json() if finished else jsonout.interrupted(writer, prompt_tokens, llm.settings)
        jsonout.emit(result, stdout)
    elif finished is not None and not output.quiet:
        report.show(report.of_output(finished), stderr=True)
    if not whole:
        complain(f"interrupted after {len(writer.token_ids):,} tokens")
    return DONE if whole else INTERRUPTED


def _show_all(outputs: Sequence[GenerationOutput], output: OutputOptions, stdout: TextIO) -> int:
    """Several texts of one prompt: nothing is streamed, and the JSON object holds them as `outputs`."""
    if output.json:
        jsonout.emit({"outputs": [one.to_json() for one in outputs]}, stdout)
        return DONE
    for number, one in enumerate(outputs, 1):
        writer = Writer()
        writer.put(f"[{number} of {len(outputs)}]\n{one.text}")
        writer.finish()
        if not output.quiet:
            report.show(report.of_output(one), stderr=True)
    return DONE
