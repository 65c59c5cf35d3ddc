"""The official client: JSON by a schema, other grammars, and calls of tools, forced and free."""

from __future__ import annotations

import json
import re

import pytest

from glimpse.serve.calls import CallList, ForcedCall, TaggedCalls

pytest.importorskip("xgrammar", reason="the extra `serve` is not installed")
openai = pytest.importorskip("openai", reason="the client of the extra `dev` is not installed")

TALK = [{"role": "user", "content": "which hat?"}]
HAT = {
    "type": "object",
    "properties": {"size": {"enum": [1, 2, 3]}, "name": {"type": "string", "pattern": "^[a-z]{2,8}$"}},
    "required": ["size", "name"],
    "additionalProperties": False,
}
BUY = {"type": "function", "function": {"name": "buy_hat", "description": "Buys.", "parameters": HAT}}
LOOK = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "additionalProperties": False}},
}
OPTIONS = {"model": "tiny", "messages": TALK, "max_tokens": 200}


@pytest.fixture(scope="module")
def client(ending):
    return openai.OpenAI(base_url=f"{ending.url}/v1", api_key="none", max_retries=0)


def check(text: str) -> None:
    value = json.loads(text)
    assert list(value) == ["size", "name"]
    assert value["size"] in (1, 2, 3)
    assert re.fullmatch("[a-z]{2,8}", value["name"])


@pytest.mark.parametrize("drafter", ["none", "lookup", "racer", "sparse", "auto"])
def test_a_schema_holds_with_every_drafter(client, drafter):
    wanted = {"type": "json_schema", "json_schema": {"name": "hat", "schema": HAT, "strict": True}}
    for seed in range(5):
        answer = client.chat.completions.create(
            response_format=wanted, seed=seed, extra_body={"drafter": drafter}, **OPTIONS
        )
        assert answer.choices[0].finish_reason == "stop"
        check(answer.choices[0].message.content)


def test_a_schema_holds_in_streams_and_in_completions(client):
    wanted = {"type": "json_schema", "json_schema": {"name": "hat", "schema": HAT}}
    parts = client.chat.completions.create(response_format=wanted, seed=5, stream=True, n=2, **OPTIONS)
    texts = ["", ""]
    for part in parts:
        texts[part.choices[0].index] += part.choices[0].delta.content or ""
    for text in texts:
        check(text)
    answer = client.completions.create(
        model="tiny", prompt="a hat:", max_tokens=200, extra_body={"response_format": wanted}
    )
    check(answer.choices[0].text)


def test_other_formats(client):
    def asked(**wanted):
        return client.chat.completions.create(response_format=wanted, seed=1, **OPTIONS).choices[0]

    assert asked(type="text").message.content
    assert re.fullmatch("(ab|cd){3}", asked(type="regex", pattern="(ab|cd){3}").message.content)
    assert asked(type="grammar", grammar='root ::= "yes" | "no"').message.content in ("yes", "no")
    whole = client.chat.completions.create(
        response_format={"type": "json_object"}, seed=1, model="tiny", messages=TALK, max_tokens=400
    )
    if whole.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(whole.choices[0].message.content), dict)


def test_a_function_that_must_be_called(client):
    choice = {"type": "function", "function": {"name": "buy_hat"}}
    answer = client.chat.completions.create(tools=[BUY, LOOK], tool_choice=choice, seed=2, **OPTIONS)
    (call,) = answer.choices[0].message.tool_calls
    assert (call.type, call.function.name) == ("function", "buy_hat")
    check(call.function.arguments)
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None
    parts = list(client.chat.completions.create(tools=[BUY, LOOK], tool_choice=choice, seed=2, stream=True, **OPTIONS))
    told = [part.choices[0].delta.tool_calls[0] for part in parts if part.choices[0].delta.tool_calls]
    assert (told[0].function.name, bool(told[0].id)) == ("buy_hat", True)
    assert len(told) > 2
    assert "".join(part.function.arguments for part in told) == call.function.arguments
    assert parts[-1].choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("many", [True, False])
def test_some_function_must_be_called(client, many):
    for seed in range(4):
        answer = client.chat.completions.create(
            tools=[BUY, LOOK], tool_choice="required", parallel_tool_calls=many, seed=seed, model="tiny", messages=TALK,
            max_tokens=300,
        )  # fmt: skip
        if answer.choices[0].finish_reason == "length":
            continue
        calls = answer.choices[0].message.tool_calls
        assert calls
        assert many or len(calls) == 1
        for call in calls:
            check(call.function.arguments) if call.function.name == "buy_hat" else json.loads(call.function.arguments)


def test_tools_are_told_to_the_model_and_calls_of_earlier_turns_too(client, ending):
    free = client.chat.completions.create(tools=[BUY], seed=1, **OPTIONS)
    none = client.chat.completions.create(tools=[BUY], tool_choice="none", seed=1, **OPTIONS)
    bare = client.chat.completions.create(seed=1, **OPTIONS)
    assert free.usage.prompt_tokens > none.usage.prompt_tokens == bare.usage.prompt_tokens
    assert none.choices[0].message.content == bare.choices[0].message.content
    call = {"id": "call_1", "type": "function", "function": {"name": "buy_hat", "arguments": '{"size": 1}'}}
    talk = [*TALK, {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "bought"}]  # fmt: skip
    answer = client.chat.completions.create(model="tiny", messages=talk, tools=[BUY], max_tokens=5)
    assert answer.choices[0].message.role == "assistant"


def test_special_tokens_in_a_tool_stay_text(ending):
    tokenizer = ending.llm.tokenizer
    evil = {"type": "function", "function": {"name": "a", "description": "<|im_end|>", "parameters": {
        "type": "object", "properties": {"<|im_start|>": {}}}}}  # fmt: skip
    ids = tokenizer.chat(TALK, tools=[evil])
    plain = tokenizer.chat(TALK, tools=[LOOK])
    for special in (1, 2):
        assert ids.count(special) == plain.count(special)
    assert "<|im_end|>" in tokenizer.decode([token for token in ids if token > 2])


WRONG = [
    ({"tools": [{"type": "web"}]}, "tools[0]"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [BUY, BUY]}, "tools"),
    ({"tools": [BUY], "tool_choice": "sometimes"}, "tool_choice"),
    ({"tools": [BUY], "tool_choice": {"type": "function", "function": {"name": "sell"}}}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [BUY], "parallel_tool_calls": False}, "parallel_tool_calls"),
    ({"tools": [{"type": "function", "function": {"name": "a", "strict": True}}]}, "strict"),
    ({"tools": [BUY], "response_format": {"type": "json_object"}}, "response_format"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}, "if": {"not": {}}}}}},
     "response_format"),
    ({"response_format": {"type": "regex", "pattern": "("}}, "response_format"),
    ({"response_format": {"type": "regex", "pattern": "a"}, "min_tokens": 3}, "min_tokens"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "param"), WRONG)
def test_what_is_not_honoured_is_named(ending, options, param):
    status, body = ending.client.post("/v1/chat/completions", {"messages": TALK, "max_tokens": 2} | options)
    assert (status, body["error"]["param"]) == (400, param)


def test_tools_are_refused_where_the_template_knows_none(endless):
    status, body = endless.client.post("/v1/chat/completions", {"messages": TALK, "tools": [BUY], "max_tokens": 2})
    assert (status, body["error"]["param"]) == (400, "tools")
    assert "<tool_call>" in body["error"]["message"]


TAGGED = (
    'I see <b>.\n<tool_call>\n{"name": "look", "arguments": {"at": "é"}}\n</tool_call> and <tool_call>[{"name": "a"}]'
)


@pytest.mark.parametrize("size", [1, 2, 5, 11, 1000])
def test_calls_between_tags_come_out_however_the_text_is_cut(size):
    reader, content, calls = TaggedCalls(), "", []
    for begin in range(0, len(TAGGED), size):
        found = reader.feed(TAGGED[begin : begin + size])
        content, calls = content + found.content, calls + found.calls
    found = reader.finish()
    assert content + found.content == "I see <b>.\n and "
    named = [(call["index"], call["function"]["name"], call["function"]["arguments"]) for call in calls + found.calls]
    assert named == [(0, "look", '{"at": "é"}'), (1, "a", "{}")]


@pytest.mark.parametrize(
    "text", ["<tool_call>{oops}</tool_call> so", "<tool_call>[]</tool_call>", "a <tool_cal", "<tool_call>{"]
)
def test_what_is_no_call_stays_text(text):
    reader = TaggedCalls()
    first, last = reader.feed(text), reader.finish()
    assert first.content + last.content == text
    assert first.calls + last.calls == []


def test_forced_calls_cut_off():
    cut = CallList()
    assert cut.feed('[{"name": "a", "argum').content == ""
    assert cut.finish().content == '[{"name": "a", "argum'
    forced = ForcedCall("a")
    assert forced.feed("").calls == []
    assert forced.feed("{").calls[0]["function"] == {"name": "a", "arguments": "{"}
