"""A36, A60 over HTTP: empty prompts get a 400 and the next request is served; closed sockets disturb nobody."""

from __future__ import annotations

import json
import logging
import socket
import threading

import pytest
from tests.cases.mini import mini

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from tests.serve.server import running, until

from glimpse.sampling import SamplingParams

PATH = "/v1/completions"
SHORT = {"max_tokens": 12, "temperature": 0}
LONG = {"prompt": [7, 8, 9], "max_tokens": 200, "temperature": 0, "stream": True}


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    return mini(tmp_path_factory.mktemp("server"), rows=2, max_context=256)


@pytest.fixture(scope="module")
def server(llm):
    with running(llm.variant(drafter="lookup", draft_tokens=3)) as found:
        yield found


def asked(server, prompt, **more):
    return server.client.post(PATH, {"prompt": prompt, **SHORT, **more})


@pytest.mark.parametrize("empty", ["", [], [[]], [""], ["a", ""]])
def test_a36_an_empty_prompt_is_a_400_and_the_next_request_works(server, llm, empty):
    status, body = asked(server, empty)
    assert (status, body["error"]["param"]) == (400, "prompt")
    assert "at least one token" in body["error"]["message"]
    status, body = asked(server, [5])
    assert (status, body["choices"][0]["text"]) == (200, llm.generate([[5]], greedy(12))[0].text)


@pytest.mark.parametrize("given", [" ", "a", [5], [1], [1, 1]])
def test_a36_a_space_one_token_and_bos_alone(server, llm, given):
    """Token 1 is the BOS token."""
    status, body = asked(server, given)
    right = llm.generate([given], greedy(12))[0]
    assert (status, body["choices"][0]["text"]) == (200, right.text)
    assert body["usage"]["prompt_tokens"] == right.usage.prompt_tokens


def greedy(tokens):
    return SamplingParams(max_tokens=tokens, temperature=0.0)


def sent(server, body, read):
    """Sends a request over a bare socket, reads so many bytes of the answer (None: all of them), and closes it."""
    raw = json.dumps(body).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
        got = b""
        while read is None or len(got) < read:
            part = line.recv(4096 if read is None else read - len(got))
            if not part:
                break
            got += part
    return got


READ = {"before the first byte": 0, "during a write": 700, "after the last": None}


@pytest.mark.parametrize("when", READ)
@pytest.mark.parametrize("stream", [True, False])
def test_a60_a_closed_socket_disturbs_nobody(server, llm, caplog, when, stream):
    """Another request goes on beside it and has the whole text; the server writes one line of the request, no trace."""
    events = []

    def lines():
        return [record.getMessage() for record in caplog.records if record.name == "glimpse.access"]

    with caplog.at_level(logging.INFO):
        other = threading.Thread(target=lambda: events.extend(server.client.stream(PATH, LONG)))
        other.start()
        got = sent(server, LONG | {"prompt": [20, 21], "stream": stream}, READ[when])
        other.join(60)
        until(lambda: server.served.gate.active == 0, "the request that was left goes on")
        assert asked(server, [5])[0] == 200
        until(lambda: len(lines()) >= 3, "a request has no line")
    right = llm.generate([LONG["prompt"]], greedy(200))[0]
    assert "".join(event["choices"][0]["text"] for event in events if event["choices"]) == right.text
    assert READ[when] is None or len(got) <= READ[when]
    assert [line.split()[1:3] for line in lines()] == [["POST", PATH]] * 3
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
