"""A thousand malformed requests: each gets one 4xx that says why, and the server goes on."""

from __future__ import annotations

import json
import random
import socket

import pytest
from tests.serve.server import running

from glimpse.serve.errors import ApiError
from glimpse.serve.json_body import parsed

GOOD = {"/v1/completions": {"prompt": "a", "max_tokens": 1},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
        "/tokenize": {"prompt": "a"},
        "/detokenize": {"tokens": [5]}}  # fmt: skip
ODD = [None, True, -1, 1.5, 10**400, -(10**30), "", "x", "\ud800", "a" * 5000, [], [[]], [None], {}, {"a": {}},
       [1, "a"],
       [-1], [[1], ["a"]], {"role": "user"}, [{"role": "user"}], [{"role": "wizard", "content": "a"}],
       [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}],
       1e308, "NaN"]  # fmt: skip
FIELDS = ["prompt", "messages", "model", "max_tokens", "temperature", "top_p", "top_k", "n", "stop", "seed", "stream",
          "logprobs", "top_logprobs", "echo", "logit_bias", "frequency_penalty", "stream_options", "response_format",
          "tools", "tool_choice", "drafter", "pacer", "acceptance", "max_draft", "speculation", "stop_token_ids",
          "bad_words", "min_tokens", "best_of", "suffix", "tokens", "__proto__", "x" * 300, "\ud800"]  # fmt: skip
BROKEN = [b"", b"{", b"[]", b"null", b'"a"', b"{]", b"\xff\xfe", b'{"prompt": NaN}', b"[" * 100_000, b'{"a":' * 50_000,
          b'{"prompt": "a", "temperature": Infinity}', b"\x00" * 64, b'{"prompt": ' + b"9" * 5000 + b"}",
          b'{"prompt": "\\ud800"}', b'{"prompt": ["\\ud800"]}', b"{'prompt': 'a'}"]  # fmt: skip


@pytest.fixture(scope="module")
def server(endless_llm):
    with running(endless_llm, max_body=1 << 20) as found:
        yield found


def mutated(draw: random.Random, path: str) -> bytes:
    """A request with one to three fields that are wrong, or seldom by chance right."""
    body = dict(GOOD[path])
    for _ in range(draw.randint(1, 3)):
        body[draw.choice(FIELDS)] = draw.choice(ODD)
    return json.dumps(body).encode()


def broken(draw: random.Random, path: str) -> bytes:
    """A good body with bytes cut out, doubled or changed."""
    body = bytearray(json.dumps(GOOD[path]).encode())
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(body))
        body[at : at + draw.randint(0, 3)] = bytes(draw.choices(range(256), k=draw.randint(0, 3)))
    return bytes(body)


def test_a_thousand_malformed_requests(server):
    draw, seen, right = random.Random(9), set(), 0
    for number in range(1000):
        path = draw.choice(list(GOOD))
        make = (mutated, broken, lambda draw, path: draw.choice(BROKEN))[number % 3]
        raw = make(draw, path)
        status, body = server.client.post(path, raw)
        seen.add(status)
        if status == 200:
            right += 1
            continue
        assert 400 <= status < 500, (path, raw[:300], status, body)
        error = body["error"]
        assert error["message"].isascii(), error
        assert len(error["message"]) < 1300
        assert "Traceback" not in error["message"]
    assert right < 250
    assert seen <= {200, 400, 404, 413, 429}
    assert server.client.post("/v1/completions", GOOD["/v1/completions"])[0] == 200


@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/static/../app.py", "/static/%2e%2e/app.py", "/v1/models/x%00"])
def test_paths_that_are_not_there(server, path):
    status, body = server.client.get(path)
    assert (status, "error" in body) == (404, True)


def test_other_methods(server):
    assert server.client.get("/v1/completions")[0] == 405
    assert server.client.send("DELETE", "/v1/models", None)[0] == 405


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/99\r\n\r\n",
    ],
)
def test_what_is_hardly_http(server, raw):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(100)
    assert answer == b"" or answer.split()[1][:1] == b"4", answer
    assert server.client.get("/health")[0] == 200


REFUSED = [
    ("suffix", "x"), ("best_of", 3), ("store", True), ("service_tier", "flex"), ("n", 0), ("n", 1000), ("logprobs", 21),
    ("temperature", -1), ("top_p", 0), ("max_tokens", -2), ("stop", [""]), ("seed", 1.5), ("logit_bias", {"a": 1}),
    ("logit_bias", {"999999": 1}), ("frequency_penalty", 3), ("stream_options", {"include_usage": True}),
    ("drafter", "magic"), ("pacer", "magic"), ("acceptance", "magic"), ("max_draft", 9999), ("unknown", 1),
    ("messages", []), ("prompt", []), ("prompt", ""), ("prompt", [999999]), ("prompt", "a " * 4000),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_an_option_that_is_not_honoured_is_named(server, name, value):
    status, body = server.client.post("/v1/completions", GOOD["/v1/completions"] | {name: value})
    assert status == 400
    assert name in body["error"]["message"]
    assert body["error"]["param"].partition(".")[0] == name or value == "a " * 4000


@pytest.mark.parametrize(
    ("name", "value"),
    [("stop", "x" * 1001), ("stop", ["x" * 1001]), ("stop", ["x"] * 65), ("bad_words", ["x"] * 1001), ("str", 1),
     ("suppress_tokens", [5] * 20_001), ("stop_token_ids", [5] * 20_001), ("n", "1"), ("prompt", ["a", 5]),
     ("logit_bias", {str(token): 1 for token in range(20_001)})],
)  # fmt: skip
def test_param_is_the_field_alone(server, name, value):
    """Whatever kinds a field may be of, and a long list is refused as quickly as a short one."""
    status, body = server.client.post("/v1/completions", GOOD["/v1/completions"] | {name: value})
    assert (status, body["error"]["param"].partition(".")[0]) == (400, name)
    assert body["error"]["message"].startswith((f"{name}:", f"{name}.", f"'{name}':"))
    assert not any(word in body["error"]["message"].partition(":")[0] for word in ("constrained", "list["))


def test_too_many_prompts_are_refused_before_they_are_read(server, monkeypatch):
    monkeypatch.setattr(type(server.served.tokenizer), "encode", lambda *_, **__: pytest.fail("one was read"))
    status, body = server.client.post("/v1/completions", {"prompt": ["a"] * 10_000})
    assert (status, body["error"]["param"]) == (400, "n")


def test_a_body_that_is_packed_is_refused(server):
    status, body = server.client.post("/v1/completions", GOOD["/v1/completions"], {"Content-Encoding": "gzip"})
    assert (status, body["error"]["param"]) == (415, "Content-Encoding")


CHAT_REFUSED = [
    ("audio", {"voice": "a"}), ("modalities", ["audio"]), ("prediction", {"type": "content"}), ("functions", [{}]),
    ("reasoning_effort", "high"), ("web_search_options", {}), ("top_logprobs", 2), ("echo", True), ("prompt", "a"),
    ("messages", []), ("messages", [{"role": "user", "content": 5}]), ("messages", [{"role": "user", "x": "a"}]),
    ("max_completion_tokens", 7), ("verbosity", "low"), ("function_call", "auto"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), CHAT_REFUSED)
def test_an_option_of_a_chat_that_is_not_honoured_is_named(server, name, value):
    status, body = server.client.post("/v1/chat/completions", GOOD["/v1/chat/completions"] | {name: value})
    assert status == 400
    assert name in body["error"]["message"] or name == "max_completion_tokens"


@pytest.mark.parametrize(
    ("raw", "named"),
    [(b'{"prompt": "a", "seed": 1, "seed": 2}', "'seed' is there twice"),
     (b'{"prompt": "a", "logit_bias": {"7": 1, "8": 2, "7": 3}}', "'7' is there twice")],
)  # fmt: skip
def test_two_values_for_one_key_are_refused_as_one_would_be_ignored(raw, named):
    with pytest.raises(ApiError, match=named):
        parsed(raw)


HARMLESS = [("store", False), ("service_tier", "auto"), ("user", "me"), ("metadata", {"a": "b"}), ("suffix", None),
            ("best_of", 1), ("logit_bias", None), ("seed", None)]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_values_that_ask_for_nothing_are_let_through(server, name, value):
    assert server.client.post("/v1/completions", GOOD["/v1/completions"] | {name: value})[0] == 200
