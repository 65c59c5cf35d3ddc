"""Connections that stall, trickle, pipeline or never end; names the server goes by; what browsers are told."""

from __future__ import annotations

import json
import socket
import time

import pytest
from tests.serve.client import Client, value
from tests.serve.server import running, until

from glimpse.llm import LLM

PATH = "/v1/completions"
SHORT = {"prompt": "the sea", "max_tokens": 3, "temperature": 0}
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PATIENCE = 0.4


@pytest.fixture(scope="module")
def llm(tiny_folder):
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=8, device="cpu")


@pytest.fixture(scope="module")
def hasty(llm):
    """A server that waits for nobody for long."""
    with running(llm, body_seconds=PATIENCE, max_body=1 << 20) as server:
        yield server


def connected(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def ending(connection: socket.socket, trickle: bytes = b"") -> bytes:
    """All that is answered until the server closes the connection, while a client goes on sending a byte at a time."""
    got, end = b"", time.monotonic() + 10
    connection.settimeout(0.05)
    while time.monotonic() < end:
        try:
            if trickle:
                connection.sendall(trickle)
            if not (part := connection.recv(1 << 16)):
                return got
            got += part
        except TimeoutError:
            pass
        except OSError:
            return got
    raise AssertionError(f"the connection stays open: {got!r}")


@pytest.mark.parametrize(
    ("begun", "trickle"), [(b"", b""), (b"POST /v1/comp", b""), (b"POST /v1/comp", b"a"), (HEAD, b""), (HEAD, b"a")]
)
def test_a_head_that_does_not_come_is_not_waited_for(hasty, begun, trickle):
    with connected(hasty) as connection:
        begin = time.monotonic()
        connection.sendall(begun)
        assert ending(connection, trickle) == b""
        assert PATIENCE * 0.8 < time.monotonic() - begin < 5


def test_a_head_that_does_not_come_after_an_answer_is_not_waited_for_either(hasty):
    with connected(hasty) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert ending(connection, b"X").startswith(b"HTTP/1.1 200")


def test_a_body_that_trickles_is_a_408_and_the_end(hasty):
    with connected(hasty) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
        answer = ending(connection, b" ")
        assert answer.startswith(b"HTTP/1.1 408")
        assert answer.count(b"HTTP/1.1") == 1


def test_a_body_in_chunks_without_end_is_a_413_and_the_end(hasty):
    with connected(hasty) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        answer = ending(connection, b"10000\r\n" + b" " * 0x10000 + b"\r\n")
    assert answer == b"" or answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 408")), answer
    assert hasty.client.post(PATH, SHORT)[0] == 200


def test_a_body_after_its_refusal_does_not_hold_the_connection(hasty):
    with connected(hasty) as connection:
        connection.sendall(HEAD.replace(b"application/json", b"text/plain") + b"Content-Length: 100000\r\n\r\n")
        assert ending(connection, b" ").startswith(b"HTTP/1.1 415")


def test_an_answer_that_nobody_reads_is_ended(hasty):
    """More than all buffers hold: the texts end, and so does the connection, long before the request's own time."""
    asked = {"messages": [{"role": "user", "content": "a"}], "n": 8, "stream": True, "logprobs": True}
    body = json.dumps(asked | {"top_logprobs": 20}).encode()
    before = left(hasty)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", hasty.port))
        head = HEAD.replace(b"completions", b"chat/completions")
        connection.sendall(head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        until(lambda: hasty.served.gate.active == 8, "it did not begin")
        until(lambda: not hasty.server.server_state.tasks, "it is still being sent")
        assert left(hasty) == before + 1


def left(server) -> float:
    return value(server.client.get("/metrics")[1], "request_disconnected_total")


def test_a_client_that_goes_in_the_middle_of_its_body_is_no_fault_of_the_server(hasty, caplog):
    def refused():
        return value(hasty.client.get("/metrics")[1], "request_failed_total", status="400")

    before = refused()
    with connected(hasty) as connection:
        connection.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"prompt": ')
    until(lambda: refused() == before + 1, "not seen")
    assert not caplog.records


def test_requests_in_one_go_are_answered_in_turn(hasty):
    body = b'{"prompt": "a", "max_tokens": 2}'
    one = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    with connected(hasty) as connection:
        connection.sendall(one * 5 + b"GET /health HTTP/1.1\r\nHost: a.localhost\r\nConnection: close\r\n\r\n")
        answer = ending(connection)
    assert answer.count(b"HTTP/1.1 200") == 6
    assert answer.endswith(b'{"status":"ok"}')


def test_more_connections_than_there_may_be_are_closed_unheard(llm, monkeypatch, caplog):
    monkeypatch.setattr("glimpse.serve.running.connections_allowed", lambda: 8)
    with running(llm) as server:
        held = [connected(server) for _ in range(8)]
        until(lambda: len(server.server.server_state.connections) == 8, "they were not taken")
        with connected(server) as ninth:
            assert ending(ninth) == b""
        held.pop().close()
        until(lambda: len(server.server.server_state.connections) < 8, "one is still counted")
        assert server.client.post(PATH, SHORT)[0] == 200
        for connection in held:
            connection.close()
    assert not caplog.records


NAMES = ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.8.8.8:1", "[::1]:8000", "glimpse.localhost", "192.168.0.7",
         "mine.test", "mine.test:443", "localhost."]  # fmt: skip
STRANGE = ["evil.test", "evil.test:8000", "localhost.evil.test", "127.0.0.1.evil.test", "mine.test.evil", "\xe9vil"]


def test_a_page_whose_name_was_made_to_point_here_is_refused(llm):
    with running(llm, allow_hosts=("Mine.test",)) as server:
        for name in NAMES:
            assert server.client.get("/v1/models", {"Host": name})[0] == 200, name
        for name in STRANGE:
            for path in ("/v1/models", "/", "/health", "/metrics"):
                status, answer = server.client.get(path, {"Host": name})
                assert (status, answer["error"]["param"]) == (403, "Host"), name
        assert server.client.post(PATH, SHORT, {"Host": "evil.test"})[0] == 403


def test_a_key_or_another_address_makes_the_name_irrelevant(llm):
    with running(llm, api_keys=("k",)) as server:
        assert server.client.get("/v1/models", {"Host": "a.test"})[0] == 200
        assert Client(server.port).get("/v1/models", {"Host": "a.test"})[0] == 401
    with running(llm, host="0.0.0.0") as server:
        assert server.client.get("/v1/models", {"Host": "a.test"})[0] == 200


def test_what_browsers_are_told(hasty):
    for path, policy in (("/", "frame-ancestors 'none'"), ("/static/js/main.js", "frame-ancestors 'none'"),
                         ("/v1/models", "default-src 'none'; frame-ancestors 'none'"),
                         ("/nowhere", "default-src 'none'; frame-ancestors 'none'")):  # fmt: skip
        _, headers, _ = hasty.client.raw("GET", path, None)
        assert headers["content-security-policy"] == policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
