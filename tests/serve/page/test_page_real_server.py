"""The page on the real server, over a tiny checkpoint: what both take the contract to be is the same."""

from __future__ import annotations

import pytest
from tests.serve.server import running

from glimpse.llm import LLM


@pytest.fixture(scope="module")
def llm(tiny_folder):
    # The budget is below the context, so that the drafts read a part.
    return LLM(tiny_folder, drafter="sparse", pacer="fixed", draft_tokens=3, budget_floor=16, device="cpu")


@pytest.fixture(scope="module")
def server(llm):
    with running(llm, api_keys=("secret",)) as real:
        real.url += "/"
        yield real


@pytest.fixture
def page(open_page):
    page = open_page()
    page.fill("#key", "secret")
    page.press("#key", "Enter")
    page.wait_for_selector("#model:has-text('tiny')")
    page.fill("#max-tokens", "40")
    return page


def test_offers_what_the_server_has(page):
    assert page.locator("#drafter option").first.text_content() == "sparse (default)"
    assert "racer+suffix" in page.locator("#drafter option").all_text_contents()


def test_a_chat_compared_is_the_same_text(page, ask):
    page.check("#compare")
    ask(page, "What do the drafts read? " * 4)
    plain, drafted = (page.locator(".text").nth(place).text_content() for place in range(2))
    assert plain == drafted
    assert len(plain) > 20
    assert "The same text, token for token." in page.locator(".verdict").text_content()
    assert page.locator(".state").last.text_content().startswith("40 tokens · first after")
    assert page.locator(".pane >> nth=0 >> .token[data-kind=sparse]").count() == 0
    assert page.locator("#fig-depth svg").is_visible()
    assert page.locator("#fig-gamma svg").is_visible()
    assert page.locator("#fig-recall .cell").count() == 64


def test_a_document_is_continued_with_marked_tokens(page):
    page.check("[name=mode][value=document]", force=True)
    page.select_option("#drafter", "lookup")
    page.fill("#temperature", "0")
    page.fill("#document", "to be or not to be or not to be or not to be")
    page.click("#send")
    page.wait_for_selector(".turn")
    page.wait_for_selector("#stop", state="hidden")
    assert page.locator(".turn .token").count() == 40
    assert page.locator("#numbers dd").nth(2).text_content() == "lookup, entropy"


def test_what_the_server_refuses_is_said(page):
    page.fill("#message", "much " * 600)
    page.press("#message", "Enter")
    page.wait_for_selector("#error:visible")
    assert "512" in page.locator("#error-text").text_content()


def test_stopping_ends_the_request_on_the_server(page, server):
    page.fill("#max-tokens", "400")
    page.fill("#message", "go on")
    page.press("#message", "Enter")
    page.wait_for_selector(".turn .token", state="attached")
    page.keyboard.press("Escape")
    page.wait_for_selector("#stop", state="hidden")
    page.wait_for_timeout(300)
    assert server.served.gate.active == 0
    assert page.locator(".state").text_content().endswith("stopped")
