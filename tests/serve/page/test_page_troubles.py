"""What goes wrong is said in one clear line, and nothing that was written or typed is lost."""

from __future__ import annotations

import pytest
from fake_server import Reply
from scripted_answers import ROUNDS, answer, chunk, endless


def error(page):
    """The line at the top; it has to be one."""
    page.wait_for_selector("#error:visible")
    text = page.locator("#error-text").text_content()
    assert text
    assert "\n" not in text
    return text


def ask_in_vain(page, text="hello"):
    page.fill("#message", text)
    page.press("#message", "Enter")
    return error(page)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(400, body={"error": {"message": "seed: -1 is not\n at least 0"}}), "seed: -1 is not at least 0"),
        (Reply(429, {"Retry-After": "7"}, body={"error": {}}), "The server is full; try again in 7 s."),
        (Reply(422, body={"detail": "prompt: is missing"}), "prompt: is missing"),
        (Reply(500, body=[]), "The server answered 500 Internal Server Error without a reason."),
        (Reply(events=[b"data: {oops\n\n"]), "The server sent something that is not JSON."),
        (Reply(events=[{"error": {"message": "out of pages"}}]), "out of pages"),
        (Reply(events=[]), "The server ended the answer before it was complete."),
    ],
)  # fmt: skip
def test_what_the_server_refuses_is_said_and_the_question_kept(page, server, reply, said):
    server.answer = lambda path, body: reply
    assert ask_in_vain(page) == said
    assert page.input_value("#message") == "hello"
    assert page.locator(".turn").count() == 0
    assert page.locator("#empty").is_visible()
    page.click("#error-close")
    assert page.locator("#error").is_hidden()


def test_a_long_reason_is_cut(page, server):
    server.answer = lambda path, body: Reply(400, body={"error": {"message": "x" * 5000}})
    assert len(ask_in_vain(page)) == 301


def test_what_came_before_a_break_stays(page, server):
    whole = [chunk(tokens, chat=True) for tokens in ROUNDS[:2]]
    server.answer = lambda path, body: Reply(events=[*whole, {"error": {"message": "the request timed out"}}])
    assert ask_in_vain(page) == "the request timed out"
    assert page.locator(".text").text_content() == "Light from the sun"
    assert page.locator(".state").text_content() == "4 tokens · broken off"


def test_a_server_that_is_gone(page, server):
    server.http.shutdown()
    server.http.server_close()
    assert ask_in_vain(page).endswith("cannot be reached; is glimpse serve still running?")


def test_an_api_key_is_asked_for_used_and_not_kept(open_page, server, ask):
    server.key = "secret"
    page = open_page()
    assert error(page) == "This server asks for an API key: enter it under Options."
    assert page.evaluate("document.activeElement.id") == "key"
    page.fill("#key", "secret")
    page.press("#key", "Enter")
    page.wait_for_selector("#model:has-text('tiny')")
    assert page.locator("#error").is_hidden()
    ask(page)
    assert len(server.asked) == 1
    assert "secret" not in page.evaluate("JSON.stringify(localStorage)")


def test_stop_ends_the_request_and_keeps_the_text(page, server):
    server.answer = endless
    page.fill("#message", "go on")
    page.press("#message", "Enter")
    page.wait_for_selector(".token:nth-of-type(6)")
    page.click("#stop")
    page.wait_for_selector("#stop", state="hidden")
    assert server.gone.wait(5)
    assert page.locator(".state").text_content().endswith("· stopped")
    assert page.locator(".text").text_content().startswith(" w0, w1, w2,")
    assert page.evaluate("document.activeElement.id") == "message"
    assert page.locator("#error").is_hidden()


def test_stopping_a_comparison_does_not_begin_the_second_run(page, server):
    server.answer = endless
    page.check("#compare")
    page.fill("#message", "go on")
    page.press("#message", "Enter")
    page.wait_for_selector(".token:nth-of-type(6)")
    page.keyboard.press("Escape")
    page.wait_for_selector("#stop", state="hidden")
    assert len(server.asked) == 1
    assert page.locator(".verdict").count() == 0


def test_a_second_question_waits_for_the_first(page, server):
    server.answer = endless
    page.fill("#message", "go on")
    page.press("#message", "Enter")
    page.wait_for_selector(".token")
    page.fill("#message", "and this?")
    page.press("#message", "Enter")
    assert page.locator("#status").text_content() == "One answer at a time: stop this one first."
    assert page.input_value("#message") == "and this?"
    page.keyboard.press("Escape")
    page.wait_for_selector("#stop", state="hidden")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("temperature", "3", "Temperature must be a number from 0 to 2."),
        ("seed", "-1", "Seed must be a whole number at least 0."),
        ("max-tokens", "1.5", "Max tokens must be a whole number at least 1."),
    ],
)
def test_a_field_out_of_range_is_named(page, server, field, value, said):
    page.fill(f"#{field}", value)
    assert ask_in_vain(page) == said
    assert not server.asked


def test_nothing_to_ask_is_said(page, server):
    page.press("#message", "Enter")
    assert error(page) == "Write a message first."
    page.check("[name=mode][value=document]", force=True)
    page.press("#message", "Enter")
    page.wait_for_selector("#error-text:text-is('Paste or open a document first.')")
    assert not server.asked


def test_an_answer_after_an_error_clears_it(page, server, ask):
    server.answer = lambda path, body: Reply(400, body={"error": {"message": "no"}})
    assert ask_in_vain(page) == "no"
    server.answer = answer
    ask(page)
    assert page.locator("#error").is_hidden()
