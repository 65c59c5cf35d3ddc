"""How chunks become choices, without a server: a stream says what the whole answer says, however the text is cut."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from glimpse.outputs import StreamChunk
from glimpse.sampling import SamplingParams
from glimpse.serve.chat import ChatForm
from glimpse.serve.schemas import ChatBody
from glimpse.serve.tools import tools_of

TOOL = {"type": "function", "function": {"name": "look"}}
CALL = '<tool_call>{"name": "look", "arguments": {"at": "sea"}}</tool_call>'
BODY = ChatBody(messages=[{"role": "user", "content": "a"}], tools=[TOOL])


@pytest.fixture(scope="module")
def output(endless_llm):
    """Some output, whose text and end are exchanged."""
    return endless_llm.generate([[5, 6, 7]], SamplingParams(max_tokens=1, seed=1))[0]


@pytest.fixture
def form(endless_llm):
    served = SimpleNamespace(settings=SimpleNamespace(name="tiny"), tokenizer=endless_llm.tokenizer)
    return ChatForm(served, BODY, tools_of(BODY, known=True))


def told(calls):
    return [call["function"] for call in calls or ()]


def streamed(form, output, size):
    """(content, calls, the last finish reason) of a text that comes `size` characters at a time."""
    text, content, calls, reason = output.text, "", [], None
    for begin in range(0, len(text), size):
        last = output if begin + size >= len(text) else None
        for choice in form.part(0, StreamChunk(text[begin : begin + size], (5,), (), last)):
            content += choice["delta"].get("content", "")
            calls += choice["delta"].get("tool_calls", [])
            reason = choice["finish_reason"]
            assert reason is None or last
    return content, calls, reason


@pytest.mark.parametrize("size", [1, 3, 12, 500])
@pytest.mark.parametrize("end", ["stop", "length"])
@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("just text", 0), (f"so {CALL} and {CALL}.", 2), ("it ends in a beginning <tool_c", 0), (CALL[:-12], 1),
        (f"{CALL} <tool_call>{{", 1), ("<tool_call>no call</tool_call>", 0),
    ],
    ids=["text", "calls", "half a tag", "not closed", "half a call", "no call"],
)  # fmt: skip
def test_a_stream_says_what_the_whole_answer_says(form, output, text, calls, end, size):
    made = replace(output, text=text, finish_reason=end)
    whole = form.whole(0, made)
    content, parts, reason = streamed(form, made, size)
    assert content == (whole["message"]["content"] or "")
    assert told(parts) == told(whole["message"].get("tool_calls"))
    assert [call["index"] for call in parts] == list(range(calls))
    assert reason == whole["finish_reason"] == ("tool_calls" if calls and end == "stop" else end)
