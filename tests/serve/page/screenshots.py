"""Pictures of the page in each state, to look at: PYTHONPATH=src python tests/serve/page/screenshots.py OUT"""

from __future__ import annotations

import shutil
import sys
from itertools import pairwise
from pathlib import Path

import scripted_answers
from fake_server import FakeServer, Reply
from playwright.sync_api import Page, sync_playwright

from conftest import FLAGS, FORMS

SAMPLE = """\
The text is the same because nothing that the drafter proposes is kept unless the target would have written it. \
The noise of each position is computed from the seed and the position alone, so a draft changes only how long it takes.

Three things follow:

1. Greedy decoding compares the likeliest token with the draft.
2. Sampling repeats the same draw.
3. A wrong draft costs what guessing cost, and no text."""
SOURCES = ["sparse", "sparse", "lookup", "target", "lookup", "lookup", "lookup", "target", "block", "block", "target"]


def rounds() -> list[list[tuple[str, str]]]:
    """The sample in rounds of one to five tokens, of every source."""
    tokens = [word if not place else f" {word}" for place, word in enumerate(SAMPLE.split(" "))]
    words = [(token, SOURCES[place % len(SOURCES)]) for place, token in enumerate(tokens)]
    cuts = [0]
    while cuts[-1] < len(words):
        cuts.append(min(len(words), cuts[-1] + 1 + (len(cuts) * 7) % 5))
    parts = [words[begin:end] for begin, end in pairwise(cuts)]
    return [[*part[:-1], (part[-1][0], "target")] for part in parts]


def answer(path: str, body: dict) -> Reply:
    """The sample, or an endless one where seed 1 is asked for, or a refusal for seed 2."""
    if body.get("seed") == 1:
        return scripted_answers.answer(path, body, rounds=rounds() * 20, pause=0.06)
    if body.get("seed") == 2:
        message = "temperature: 3.5 is not between 0 and 2"
        return Reply(400, body={"error": {"message": message}})
    shares = [1 / (1 + (place * 37) % 29) ** 2 for place in range(64)]
    depths = {"drafted_by_depth": [90, 88, 80, 61, 40, 22], "accepted_by_depth": [84, 77, 65, 45, 27, 13]}
    total = {"drafted": 381, "accepted": 311, "recalled": [share / sum(shares) for share in shares]}
    return scripted_answers.answer(path, body, rounds=rounds(), pause=0.04, **depths, **total)


def send(page: Page, seed: str, *, wait: bool = True) -> None:
    """Asks about the sample document with this seed."""
    page.evaluate("(seed) => (document.getElementById('seed').value = seed)", seed)
    page.fill("#message", "Why is the text the same as without drafts?")
    page.press("#message", "Enter")
    if wait:
        page.wait_for_timeout(300)
        page.wait_for_selector("#stop", state="hidden", timeout=60_000)


def states(page: Page, name: str, out: Path) -> None:
    """One picture of each state."""

    def shot(state: str, *, whole: bool = False) -> None:
        page.screenshot(path=out / f"{name}-{state}.png", full_page=whole)

    page.wait_for_timeout(300)
    shot("empty")
    send(page, "2", wait=False)
    page.wait_for_selector("#error:visible")
    shot("error")
    page.click("#error-close")
    send(page, "1", wait=False)
    page.wait_for_timeout(2500)
    shot("streaming")
    page.keyboard.press("Escape")
    page.wait_for_selector("#stop", state="hidden")
    page.click("#clear")
    send(page, "3")
    page.evaluate("scrollTo(0, 0)")
    shot("finished", whole=True)
    page.click("#clear")
    page.check("[name=mode][value=document]", force=True)
    page.click("#sample")
    page.check("#compare")
    page.select_option("#drafter", "sparse") if page.locator("#drafter").is_visible() else None
    send(page, "3")
    page.locator(".text").last.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    shot("compared")
    page.locator(".recall").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.set_viewport_size({"width": page.viewport_size["width"], "height": 1500})
    shot("recall", whole=True)


def main(out: Path) -> None:
    """Desktop and phone, light and dark."""
    out.mkdir(parents=True, exist_ok=True)
    with FakeServer(answer) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for form, options in FORMS.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(color_scheme=scheme, **options)
                page = context.new_page()
                page.goto(server.url)
                states(page, f"{form}-{scheme}", out)
                context.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
