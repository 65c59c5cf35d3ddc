"""POST /v1/chat/completions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from fastapi import APIRouter, Request
from starlette.responses import Response

from glimpse.outputs import GenerationOutput, StreamChunk, TokenLogprob
from glimpse.serve.answer import Answer
from glimpse.serve.calls import reader_of
from glimpse.serve.form import Head, Json
from glimpse.serve.json_body import read_body
from glimpse.serve.logprobs import chat_logprobs
from glimpse.serve.messages import settled
from glimpse.serve.params import chat_params
from glimpse.serve.schemas import ChatBody
from glimpse.serve.served import Served
from glimpse.serve.tools import Tools, tools_of
from glimpse.serve.usage import Stopwatch
from glimpse.serve.work import Work

router = APIRouter()


@router.post("/v1/chat/completions")
async def chat(request: Request) -> Response:
    """The next turn of a conversation, by the checkpoint's chat template."""
    served: Served = request.app.state.served
    watch = Stopwatch()
    body = await read_body(request, ChatBody, served.settings.body_seconds)
    return await asyncio.to_thread(_answer, served, body, watch)


def _answer(served: Served, body: ChatBody, watch: Stopwatch) -> Answer:
    """What is asked for, checked and read; a large request takes its time, so not in the event loop."""
    served.check_model(body.model)
    tools = tools_of(body, known=served.tokenizer.knows_tools)
    options, params = served.ways.options_of(body), chat_params(body, tools.grammar)
    ids = served.tokenizer.chat(
        settled(body.messages), tools=tools.offered or None, most=served.llm.context_length
    )  # fmt: skip
    work = Work(served, options, [ids], params, body.n, watch)
    return Answer(work, ChatForm(served, body, tools), stream=body.stream)


class ChatForm:
    """Choices with a `message`, or with `delta`s whose first has the role; both may call tools."""

    def __init__(self, served: Served, body: ChatBody, tools: Tools) -> None:
        include = body.stream_options is not None and body.stream_options.include_usage
        self.head = Head(
            served.settings.name, "chatcmpl", "chat.completion", "chat.completion.chunk", include or body.speculation,
            body.speculation,
        )  # fmt: skip
        self._tokenizer, self._tools = served.tokenizer, tools
        self._readers = [reader_of(tools) for _ in range(body.n)]
        self._called: set[int] = set()

    def opening(self) -> Iterator[Json]:
        """The role of each answer."""
        for index in range(len(self._readers)):
            yield _choice(index, "delta", {"role": "assistant", "content": ""}, None)

    def part(self, index: int, chunk: StreamChunk) -> Iterator[Json]:
        """The text and the calls it brings; where it ends, why."""
        reader = self._readers[index]
        found = [reader.feed(chunk.text)]
        if chunk.output is not None:
            found.append(reader.finish())
        content, calls = "".join(one.content for one in found), [call for one in found for call in one.calls]
        if calls:
            self._called.add(index)
        delta = ({"content": content} if content else {}) | ({"tool_calls": calls} if calls else {})
        choice = _choice(index, "delta", delta, self._logprobs(chunk.logprobs))
        yield choice | (_ending(chunk.output, called=index in self._called) if chunk.output is not None else {})

    def whole(self, index: int, output: GenerationOutput) -> Json:
        """A finished answer."""
        reader = reader_of(self._tools)
        read, rest = reader.feed(output.text), reader.finish()
        content = read.content + rest.content
        calls = [{key: value for key, value in call.items() if key != "index"} for call in read.calls + rest.calls]
        message: Json = {"role": "assistant", "content": content if content or not calls else None, "refusal": None}
        message |= {"tool_calls": calls} if calls else {}
        return _choice(index, "message", message, self._logprobs(output.logprobs)) | _ending(output, called=bool(calls))

    def _logprobs(self, entries: tuple[TokenLogprob, ...] | None) -> Json | None:
        return chat_logprobs(self._tokenizer, entries) if entries else None


def _choice(index: int, name: str, content: Json, logprobs: Json | None) -> Json:
    return {"index": index, name: content, "logprobs": logprobs, "finish_reason": None}


def _ending(output: GenerationOutput, *, called: bool) -> Json:
    reason = "tool_calls" if called and output.finish_reason == "stop" else output.finish_reason
    return {"finish_reason": reason, "stop_reason": output.stop_reason}
