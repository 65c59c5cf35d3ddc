"""POST /v1/chat/completions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from glimpse.outputs import GenerationOutput, StreamChunk
from glimpse.serve.answer import Answer
from glimpse.serve.form import Head, Json
from glimpse.serve.json_body import read_body
from glimpse.serve.logprobs import chat_logprobs
from glimpse.serve.messages import settled
from glimpse.serve.params import chat_params
from glimpse.serve.schemas import ChatBody
from glimpse.serve.served import Served
from glimpse.serve.usage import Stopwatch
from glimpse.serve.work import Work

router = APIRouter()


@router.post("/v1/chat/completions")
async def chat(request: Request) -> Response:
    """The next turn of a conversation, by the checkpoint's chat template."""
    served: Served = request.app.state.served
    watch = Stopwatch()
    body = await read_body(request, ChatBody, served.settings.body_seconds)
    served.check_model(body.model)
    options, params = served.ways.options_of(body), chat_params(body)
    render = partial(served.tokenizer.chat, most=served.llm.context_length)
    ids = await asyncio.to_thread(render, settled(body.messages))
    work = Work(served, options, [ids], params, body.n, watch)
    return Answer(work, ChatForm(served, body), stream=body.stream)


class ChatForm:
    """Choices with a `message`, or with `delta`s whose first has the role."""

    def __init__(self, served: Served, body: ChatBody) -> None:
        include = body.stream_options is not None and body.stream_options.include_usage
        self.head = Head(
            served.settings.name, "chatcmpl", "chat.completion", "chat.completion.chunk", include or body.speculation,
            body.speculation,
        )  # fmt: skip
        self._tokenizer, self._n = served.tokenizer, body.n

    def opening(self) -> Iterator[Json]:
        """The role of each answer."""
        for index in range(self._n):
            yield _choice(index, "delta", {"role": "assistant", "content": ""})

    def part(self, index: int, chunk: StreamChunk) -> Iterator[Json]:
        """The text, then the end."""
        choice = _choice(index, "delta", {"content": chunk.text} if chunk.text else {})
        if chunk.logprobs:
            choice["logprobs"] = chat_logprobs(self._tokenizer, chunk.logprobs)
        yield choice | (_ending(chunk.output) if chunk.output is not None else {})

    def whole(self, index: int, output: GenerationOutput) -> Json:
        """A finished answer."""
        message = {"role": "assistant", "content": output.text, "refusal": None}
        choice = _choice(index, "message", message) | _ending(output)
        if output.logprobs is not None:
            choice["logprobs"] = chat_logprobs(self._tokenizer, output.logprobs)
        return choice


def _choice(index: int, name: str, content: Json) -> Json:
    return {"index": index, name: content, "logprobs": None, "finish_reason": None}


def _ending(output: GenerationOutput) -> Json:
    return {"finish_reason": output.finish_reason, "stop_reason": output.stop_reason}
