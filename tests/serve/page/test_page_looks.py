"""How the page looks: nothing sticks out on a phone, text can be read in both themes, and the theme switch holds."""

from __future__ import annotations

import pytest
from scripted_answers import answer

WIDTHS = "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
CONTRASTS = """(selectors) => {
  const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d");
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
    .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const colour = rgb(getComputedStyle(element).backgroundColor);
      if (colour[3] === 255) return colour;
    }
  };
  const ratio = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  return selectors.map((selector) => {
    const element = document.querySelector(selector), style = getComputedStyle(element);
    const colour = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
    return [selector, ratio(light(rgb(colour)), light(ground(element)))];
  });
}"""
READ = [
    "h1", "#model", ".asked p", ".pane h3", ".rate", ".state", ".verdict", ".verdict small", "#send", "#theme", ".hint",
    "#numbers dt", "#numbers dd", "#legend li", "#legend .count", ".options label", "svg text", "svg .value",
    "#error-text", "figcaption", ".token[data-kind=target]", ".token[data-kind=sparse]", ".token[data-kind=retrieval]",
    ".token[data-kind=block]", ".token[data-kind=other]",
]  # fmt: skip


def with_everything(page, ask):
    """Two answers side by side and an error on top."""
    page.check("#compare")
    ask(page, "A word that is long: " + "un" * 80 + "do")
    page.evaluate("document.getElementById('error').hidden = false")
    page.evaluate("document.getElementById('error-text').textContent = 'temperature: no'")


@pytest.fixture(autouse=True)
def another_drafter(server):
    rounds = [
        [("Light", "target")],
        [(" of", "lookup"), (" a", "sparse"), (" b", "block"), (" c", "mine"), ("-" * 90, "target")],
    ]
    server.answer = lambda path, body: answer(path, body, rounds=rounds)


@pytest.mark.parametrize("mode", ["chat", "document"])
def test_nothing_sticks_out_at_360_pixels(open_page, ask, mode):
    page = open_page("phone")
    page.check(f"[name=mode][value={mode}]", force=True)
    assert page.evaluate(WIDTHS) == [360, 360]
    if mode == "document":
        page.fill("#document", "https://" + "a" * 300)
    page.click("#options summary")
    with_everything(page, ask)
    assert page.evaluate(WIDTHS) == [360, 360]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(open_page, ask, scheme):
    page = open_page(color_scheme=scheme)
    with_everything(page, ask)
    faint = [(selector, round(ratio, 2)) for selector, ratio in page.evaluate(CONTRASTS, READ) if ratio < 4.5]
    assert faint == []


def test_the_system_says_which_theme_and_the_switch_overrules_it(open_page):
    page = open_page(color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.click("#theme")
    light = page.evaluate(ground)
    assert page.locator("#theme").text_content() == "Theme: light"
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == light
    page.click("#theme")
    assert (page.locator("#theme").text_content(), page.evaluate(ground)) == ("Theme: dark", dark)
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") is None


def test_less_motion_is_granted(open_page, server):
    page = open_page(reduced_motion="reduce")
    moving = (
        "[...document.querySelectorAll('*')].filter((one) => getComputedStyle(one).animationName !== 'none').length"
    )
    page.evaluate(
        "document.getElementById('turns').innerHTML = '<div class=pane data-state=streaming><p class=text></p></div>'"
    )
    assert page.evaluate(moving) == 0


def test_stop_is_in_reach_on_a_phone_wherever_one_reads(open_page, server):
    rounds = [[(f" w{number}\n", "lookup"), (",", "target")] for number in range(400)]
    server.answer = lambda path, body: answer(path, body, rounds=rounds, pause=0.02)
    page = open_page("phone")
    page.fill("#message", "go on")
    page.press("#message", "Enter")
    page.wait_for_selector(".token:nth-of-type(80)")
    assert page.locator("#stop").evaluate("(one) => one.getBoundingClientRect().bottom <= innerHeight")
    assert page.locator(".state").evaluate("(one) => one.getBoundingClientRect().bottom <= innerHeight")
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") == 0  # who reads above is left there
    page.click("#stop")
