"""POST /v1/completions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from fastapi import APIRouter, Request
from starlette.responses import Response

from glimpse.engine.prompts import as_prompt
from glimpse.outputs import GenerationOutput, StreamChunk, TokenLogprob
from glimpse.serve.answer import Answer
from glimpse.serve.form import Head, Json
from glimpse.serve.json_body import read_body
from glimpse.serve.logprobs import CompletionLogprobs
from glimpse.serve.params import completion_params
from glimpse.serve.schemas import CompletionBody
from glimpse.serve.served import Served
from glimpse.serve.usage import Stopwatch
from glimpse.serve.work import Work

router = APIRouter()


@router.post("/v1/completions")
async def completions(request: Request) -> Response:
    """Texts that go on from prompts."""
    served: Served = request.app.state.served
    watch = Stopwatch()
    body = await read_body(request, CompletionBody, served.settings.body_seconds)
    return await asyncio.to_thread(_answer, served, body, watch)


def _answer(served: Served, body: CompletionBody, watch: Stopwatch) -> Answer:
    """What is asked for, checked and read; a large request takes its time, so not in the event loop."""
    served.check_model(body.model)
    served.gate.check(len(body.prompts) * body.n)
    options, params = served.ways.options_of(body), completion_params(body)
    prompts = [as_prompt(prompt) for prompt in body.prompts]
    most = served.llm.context_length
    ids = [served.tokenizer.encode(prompt, most=most) if isinstance(prompt, str) else prompt for prompt in prompts]
    work = Work(served, options, ids, params, body.n, watch)
    return Answer(work, CompletionForm(served, body, ids), stream=body.stream)


class CompletionForm:
    """Choices with `text`; with `echo` the prompt's text and log probabilities come first."""

    def __init__(self, served: Served, body: CompletionBody, prompts: list[list[int]]) -> None:
        include = body.stream_options is not None and body.stream_options.include_usage
        self.head = Head(
            served.settings.name, "cmpl", "text_completion", "text_completion", include or body.speculation,
            body.speculation,
        )  # fmt: skip
        self._tokenizer, self._body, self._prompts = served.tokenizer, body, prompts
        self._logprobs: dict[int, CompletionLogprobs] = {}
        self._echoed: set[int] = set()

    def opening(self) -> Iterator[Json]:
        """Nothing: a prompt's log probabilities come with its first token."""
        return iter(())

    def part(self, index: int, chunk: StreamChunk) -> Iterator[Json]:
        """One choice a chunk; before the first the prompt, where it is asked for."""
        output = chunk.output
        text, tokens, entries = chunk.text, chunk.token_ids, chunk.logprobs
        choice = self._choice(index, text, tokens, entries)
        if self._body.echo and index not in self._echoed:
            self._echoed.add(index)
            yield self._choice(index, self._prompt_text(index), (), None)
        yield choice | _ending(output)

    def whole(self, index: int, output: GenerationOutput) -> Json:
        """A finished text."""
        text, tokens = output.text, output.token_ids
        entries: tuple[TokenLogprob | None, ...] | None = output.logprobs
        if self._body.echo:
            text = self._prompt_text(index) + text
            if entries is not None:
                tokens = (*output.prompt_token_ids, *tokens)
                entries = (*(output.prompt_logprobs or ()), *entries)
        return self._choice(index, text, tokens, entries) | _ending(output)

    def _choice(
        self, index: int, text: str, tokens: tuple[int, ...], entries: tuple[TokenLogprob | None, ...] | None
    ) -> Json:
        logprobs = None
        if entries is not None:
            told = self._logprobs.setdefault(index, CompletionLogprobs(self._tokenizer))
            logprobs = told.part(tokens, entries)
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": None}

    def _prompt_text(self, index: int) -> str:
        return self._tokenizer.decode(self._prompts[index // self._body.n], skip_special_tokens=False)


def _ending(output: GenerationOutput | None) -> Json:
    return {} if output is None else {"finish_reason": output.finish_reason, "stop_reason": output.stop_reason}
