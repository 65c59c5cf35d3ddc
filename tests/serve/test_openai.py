"""The official client: completions, chats, streams, logprobs, stops, n; and the text is that of offline decoding."""

from __future__ import annotations

import pytest

from glimpse.sampling import SamplingParams
from glimpse.serve.refusals import IDLE
from glimpse.serve.schemas import ChatBody, CompletionBody

openai = pytest.importorskip("openai", reason="the client of the extra `dev` is not installed")

PROMPT = "the hat on the mat and the hat on the"
TALK = [{"role": "system", "content": "be short"}, {"role": "user", "content": "tell me a tale of the sea"}]
SAMPLED = {"max_tokens": 24, "temperature": 0.8, "seed": 11}


@pytest.fixture(scope="module")
def client(endless):
    return openai.OpenAI(base_url=f"{endless.url}/v1", api_key="none", max_retries=0)


def offline(llm, prompt, **options):
    """As `LLM.generate` writes it, plainly."""
    return llm.variant(drafter="none", draft_tokens=None).generate([prompt], SamplingParams(**options))


def test_every_option_that_the_client_knows_is_known_here():
    """Honoured, refused by name, or one that changes no answer: none is left to be refused as unknown."""
    from openai.types import completion_create_params
    from openai.types.chat import completion_create_params as chat_create_params

    for params, body in ((chat_create_params, ChatBody), (completion_create_params, CompletionBody)):
        options = set(params.CompletionCreateParamsBase.__annotations__) | {"stream"}
        assert len(options) > 15
        assert options - set(body.model_fields) - set(body.refused) - set(IDLE) == set()


def test_models(client, endless):
    (model,) = client.models.list().data
    assert model.id == "tiny"
    assert client.models.retrieve("tiny").id == "tiny"
    assert "lookup" in model.glimpse["drafters"]
    assert "entropy" in model.glimpse["pacers"]
    assert model.glimpse["max_context"] == 512
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_a_completion_is_the_offline_text(client, endless):
    (right,) = offline(endless.llm, PROMPT, **SAMPLED)
    answer = client.completions.create(model="tiny", prompt=PROMPT, **SAMPLED)
    assert answer.object == "text_completion"
    (choice,) = answer.choices
    assert (choice.text, choice.finish_reason, choice.index) == (right.text, "length", 0)
    assert answer.usage.prompt_tokens == right.usage.prompt_tokens
    assert answer.usage.completion_tokens == 24
    assert answer.usage.total_tokens == right.usage.prompt_tokens + 24


def test_a_chat_is_the_offline_text(client, endless):
    params = SamplingParams(**SAMPLED)
    right = endless.llm.variant(drafter="none", draft_tokens=None).chat(TALK, params)
    answer = client.chat.completions.create(model="tiny", messages=TALK, **SAMPLED)
    assert answer.object == "chat.completion"
    message = answer.choices[0].message
    assert (message.role, message.content) == ("assistant", right.text)
    newer = client.chat.completions.create(
        model="tiny", messages=TALK, max_completion_tokens=24, temperature=0.8, seed=11
    )
    assert newer.choices[0].message.content == right.text


def test_parts_of_a_content_are_joined(client):
    parts = [
        {"role": "user", "content": [{"type": "text", "text": "tell me a tale"}, {"type": "text", "text": " now"}]}
    ]
    whole = [{"role": "user", "content": "tell me a tale now"}]
    texts = [
        client.chat.completions.create(model="tiny", messages=talk, **SAMPLED).choices[0].message.content
        for talk in (parts, whole)
    ]
    assert texts[0] == texts[1]


def test_a_stream_joins_to_the_whole(client, endless):
    (right,) = offline(endless.llm, PROMPT, **SAMPLED)
    parts = list(client.completions.create(model="tiny", prompt=PROMPT, stream=True, **SAMPLED))
    assert len(parts) > 4, "it was not streamed"
    assert "".join(part.choices[0].text for part in parts) == right.text
    assert [part.choices[0].finish_reason for part in parts] == [None] * (len(parts) - 1) + ["length"]
    assert all(part.usage is None for part in parts)


def test_a_chat_stream_with_usage(client):
    whole = client.chat.completions.create(model="tiny", messages=TALK, **SAMPLED)
    parts = list(
        client.chat.completions.create(
            model="tiny", messages=TALK, stream=True, stream_options={"include_usage": True}, **SAMPLED
        )
    )
    *told, last = parts
    assert told[0].choices[0].delta.role == "assistant"
    text = "".join(part.choices[0].delta.content or "" for part in told)
    assert text == whole.choices[0].message.content
    assert last.choices == []
    assert last.usage.completion_tokens == 24
    assert {part.id for part in parts} == {parts[0].id}


def test_n_texts_have_the_seeds_of_offline_decoding(client, endless):
    right = offline(endless.llm, PROMPT, n=3, **SAMPLED)
    answer = client.completions.create(model="tiny", prompt=PROMPT, n=3, **SAMPLED)
    assert [choice.text for choice in answer.choices] == [output.text for output in right]
    assert len({choice.text for choice in answer.choices}) == 3
    assert answer.usage.prompt_tokens == right[0].usage.prompt_tokens, "a prompt is counted once"
    streamed = {0: "", 1: "", 2: ""}
    for part in client.completions.create(model="tiny", prompt=PROMPT, n=3, stream=True, **SAMPLED):
        streamed[part.choices[0].index] += part.choices[0].text
    assert [streamed[index] for index in range(3)] == [output.text for output in right]


def test_several_prompts_as_text_and_as_tokens(client, endless):
    prompts = [PROMPT, "another one"]
    ids = [endless.llm.tokenizer.encode(prompt) for prompt in prompts]
    right = [offline(endless.llm, prompt, n=2, **SAMPLED) for prompt in prompts]
    texts = [output.text for outputs in right for output in outputs]
    for given in (prompts, ids):
        answer = client.completions.create(model="tiny", prompt=given, n=2, **SAMPLED)
        assert [choice.text for choice in answer.choices] == texts
    (choice,) = client.completions.create(model="tiny", prompt=ids[0], **SAMPLED).choices
    assert choice.text == texts[0]


def test_a_stop_text(client, endless):
    (right,) = offline(endless.llm, PROMPT, **SAMPLED)
    stop = next(right.text[at : at + 2] for at in range(6, 20) if right.text[at : at + 2].isascii())
    answer = client.completions.create(model="tiny", prompt=PROMPT, stop=[stop, "never this"], **SAMPLED)
    assert answer.choices[0].text == right.text[: right.text.index(stop)]
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].stop_reason == stop


def test_chat_logprobs(client, endless):
    (right,) = offline(endless.llm, endless.llm.tokenizer.chat(TALK), logprobs=2, **SAMPLED)
    answer = client.chat.completions.create(model="tiny", messages=TALK, logprobs=True, top_logprobs=2, **SAMPLED)
    content = answer.choices[0].logprobs.content
    assert len(content) == 24
    for told, entry in zip(content, right.logprobs, strict=True):
        assert told.logprob == pytest.approx(entry.logprob, abs=1e-4)
        assert len(told.top_logprobs) == 2
        assert told.top_logprobs[0].logprob >= told.top_logprobs[1].logprob
        assert told.bytes is None or bytes(told.bytes).decode() == told.token
    parts = client.chat.completions.create(
        model="tiny", messages=TALK, logprobs=True, top_logprobs=2, stream=True, **SAMPLED
    )
    told = [part.choices[0].logprobs for part in parts]
    streamed = [entry for logprobs in told if logprobs for entry in logprobs.content]
    assert [entry.token for entry in streamed] == [entry.token for entry in content]


def test_completion_logprobs_and_echo(client, endless):
    ids = endless.llm.tokenizer.encode(PROMPT)
    answer = client.completions.create(model="tiny", prompt=PROMPT, logprobs=1, echo=True, **SAMPLED)
    (choice,) = answer.choices
    assert choice.text.startswith(PROMPT)
    told = choice.logprobs
    assert len(told.tokens) == len(told.token_logprobs) == len(told.top_logprobs) == len(ids) + 24
    assert told.token_logprobs[0] is None
    assert all(value <= 0 for value in told.token_logprobs[1:])
    assert told.text_offset[:2] == [0, len(told.tokens[0])]
    parts = list(client.completions.create(model="tiny", prompt=PROMPT, echo=True, stream=True, **SAMPLED))
    assert "".join(part.choices[0].text for part in parts) == choice.text


def test_offsets_are_places_in_the_text_also_where_tokens_are_parts_of_characters(client, endless):
    text = "na\u00efve \U0001f917 \u65e5 end"
    answer = client.completions.create(model="tiny", prompt=text, logprobs=0, echo=True, **SAMPLED)
    told, count = answer.choices[0].logprobs, len(endless.llm.tokenizer.encode(text))
    prompt = list(zip(told.tokens, told.text_offset, strict=True))[:count]
    assert len(prompt) > len(text)
    assert all(text[offset:].startswith(token) for token, offset in prompt if "\ufffd" not in token)
    assert prompt[-1] == ("d", len(text) - 1)


def test_the_token_of_the_text_is_among_those_told_of_its_place(client):
    answer = client.completions.create(model="tiny", prompt=PROMPT, logprobs=1, **SAMPLED)
    told = answer.choices[0].logprobs
    rows = zip(told.tokens, told.token_logprobs, told.top_logprobs, strict=True)
    assert all("\ufffd" in token or top[token] == logprob for token, logprob, top in rows)
    assert {len(top) for top in told.top_logprobs} == {1, 2}


def test_offsets_of_a_stream_go_on_from_part_to_part(client):
    asked = {"model": "tiny", "prompt": PROMPT, "logprobs": 1, "n": 2, **SAMPLED}
    whole = client.completions.create(**asked)
    found = {0: [], 1: []}
    for part in client.completions.create(stream=True, **asked):
        if part.choices[0].logprobs:
            found[part.choices[0].index] += part.choices[0].logprobs.text_offset
    assert found == {choice.index: choice.logprobs.text_offset for choice in whole.choices}
    assert len(found[1]) == 24
    assert found[1] == sorted(found[1])


@pytest.mark.parametrize("stream", [False, True])
def test_every_text_of_several_prompts_echoes_its_own(client, stream):
    prompts = [PROMPT, "another one", "a third"]
    asked = {"model": "tiny", "prompt": prompts, "n": 2, "echo": True, "max_tokens": 2, "seed": 1, "stream": stream}
    answer = client.completions.create(**asked)
    texts = [""] * 6
    for part in answer if stream else [answer]:
        for choice in part.choices:
            texts[choice.index] += choice.text
    assert [text.startswith(prompts[index // 2]) for index, text in enumerate(texts)] == [True] * 6


def test_bias_and_penalties_are_those_of_offline_decoding(client, endless):
    options = {"logit_bias": {"70": 8.0, "71": -100}, "frequency_penalty": 0.7, "presence_penalty": 0.3, **SAMPLED}
    (right,) = offline(endless.llm, PROMPT, **options)
    answer = client.completions.create(model="tiny", prompt=PROMPT, **options)
    assert answer.choices[0].text == right.text
    more = {"top_k": 5, "min_p": 0.01, "repetition_penalty": 1.2}
    (right,) = offline(endless.llm, PROMPT, **more, **SAMPLED)
    answer = client.completions.create(model="tiny", prompt=PROMPT, extra_body=more, **SAMPLED)
    assert answer.choices[0].text == right.text


@pytest.mark.parametrize("drafter", ["none", "lookup", "racer", "sparse", "auto"])
def test_every_drafter_writes_the_same_and_says_what_it_did(client, endless, drafter):
    pacing = {} if drafter in ("none", "auto") else {"pacer": "fixed", "max_draft": 3}
    (right,) = offline(endless.llm, PROMPT * 3, max_tokens=40, temperature=0)
    answer = client.completions.create(
        model="tiny", prompt=PROMPT * 3, max_tokens=40, temperature=0, extra_body={"drafter": drafter, **pacing}
    )
    assert answer.choices[0].text == right.text
    told = answer.usage.speculation
    assert (told["drafter"], told["acceptance"]) == (drafter, "coupled")
    assert told["accepted"] == sum(told["accepted_by_depth"]) <= told["drafted"]
    assert told["drafted"] == 0 or drafter != "none"
    assert told["drafted"] > 0 or drafter != "sparse"
    assert told["ttft_ms"] > 0
    assert told["tokens_per_second"] > 0


def test_tokens_of_a_stream_say_where_they_came_from(client, endless):
    parts = list(
        client.completions.create(
            model="tiny", prompt=PROMPT * 3, max_tokens=40, temperature=0, stream=True,
            extra_body={"speculation": True, "drafter": "sparse", "pacer": "fixed", "max_draft": 4},
        )
    )  # fmt: skip
    tokens = [token for part in parts for token in part.glimpse["tokens"]]
    assert len(tokens) == 40
    assert {token["from"] for token in tokens} == {"target", "sparse"}
    drafted = [token for token in tokens if token["from"] == "sparse"]
    usage = parts[-1].usage.speculation
    assert len(drafted) == usage["accepted"] > 0
    for depth in range(1, 5):
        assert usage["accepted_by_depth"][depth - 1] == sum(token["depth"] == depth for token in drafted)
    assert {token["depth"] for token in tokens if token["from"] == "target"} == {0}
    assert max(part.glimpse["gamma"] or 0 for part in parts) == 4


def test_tokenize_and_back(endless):
    status, answer = endless.client.post("/tokenize", {"prompt": PROMPT, "return_token_strs": True})
    assert status == 200
    assert answer["tokens"] == endless.llm.tokenizer.encode(PROMPT)
    assert "".join(answer["token_strs"]) == PROMPT
    assert endless.client.post("/detokenize", {"tokens": answer["tokens"]}) == (200, {"prompt": PROMPT})
    status, talk = endless.client.post("/tokenize", {"messages": TALK})
    assert talk["tokens"] == endless.llm.tokenizer.chat(TALK)
