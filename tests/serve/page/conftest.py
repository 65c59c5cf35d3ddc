"""A real Chromium (Debian's package `chromium`) on the page, served by a fake server that each test scripts."""

from __future__ import annotations

import shutil

import pytest
import scripted_answers
from fake_server import FakeServer

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}
FORMS = {"desktop": {"viewport": DESKTOP}, "phone": {"viewport": PHONE, "is_mobile": True, "has_touch": True}}


@pytest.fixture(scope="module")
def chromium():
    """Of one module, not of the session: while it is open, the thread has a running event loop, which others mind."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no Chromium here (Debian: apt install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def server():
    with FakeServer(scripted_answers.answer) as fake:
        yield fake


@pytest.fixture
def open_page(chromium, server):
    """open_page(form, **context options) -> the page, connected. Complaints and calls to other hosts fail the test."""
    contexts, wrongs = [], []

    def make(form="desktop", **options):
        context = chromium.new_context(**FORMS[form], **options)
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda one: one.url.startswith(server.url) or wrongs.append(f"asked for {one.url}"))
        page.on("pageerror", lambda error: wrongs.append(f"uncaught: {error}"))
        page.on("console", lambda said: wrongs.append(said.text) if _complaint(said) else None)
        page.goto(server.url)
        page.wait_for_selector("#model:not(:text-is('connecting…'))")
        return page

    yield make
    for context in contexts:
        context.close()
    assert not wrongs


@pytest.fixture
def page(open_page):
    return open_page()


@pytest.fixture
def ask(server):
    """ask(page, text): sends it and waits until the answer has ended."""

    def make(page, text="Why is the sky blue?"):
        page.fill("#message", text)
        page.press("#message", "Enter")
        page.wait_for_selector(".turn")
        page.wait_for_selector("#stop", state="hidden")

    return make


def _complaint(said) -> bool:
    """Errors and refusals by the content policy; that a request was refused by the server is the test's own doing."""
    return said.type == "error" and "Failed to load resource" not in said.text
