"""The page without a mouse and without eyes: focus, shortcuts, and what a screen reader is told."""

from __future__ import annotations

from scripted_answers import TEXT


def focused(page):
    """The id of what has the focus, or its class, its value or its kind."""
    return page.evaluate(
        "(({id, className, value, localName}) => id || className || value || localName)(document.activeElement)"
    )


def walk(page, key="Tab", most=60):
    """What one comes through until the focus leaves the page."""
    seen = []
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate("document.activeElement === document.body"):
            return seen
        seen.append(focused(page))
    raise AssertionError(f"no way out of the page after {most} steps: {seen}")


def test_tab_goes_through_everything_and_out_again(page):
    assert walk(page) == [
        "skip", "theme", "chip", "chip", "chat", "compare", "message", "send", "summary",
        "drafter", "pacer", "temperature", "seed", "max-tokens", "system",
    ]  # fmt: skip


def test_answers_and_figures_trap_nobody(page, ask):
    ask(page)
    walk(page)  # from the prompt, where one asks, to the end
    ways = walk(page)
    assert "text" in ways
    assert "recall" in ways
    assert walk(page, "Shift+Tab") == ways[::-1]


def test_the_skip_link_leads_to_the_prompt(page):
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert focused(page) == "message"


def test_everything_that_takes_focus_has_a_name(page, ask):
    ask(page)
    nameless = page.evaluate("""() => [...document.querySelectorAll("button, input, select, textarea, [tabindex]")]
        .filter((one) => one.checkVisibility())
        .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.[0]?.textContent.trim()))
        .map((one) => one.outerHTML)""")
    assert nameless == []


def test_enter_sends_and_shift_enter_does_not(page, server):
    page.focus("#message")
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn")
    assert server.asked[0][1]["messages"] == [{"role": "user", "content": "one\ntwo"}]


def test_control_enter_sends_from_the_document(page, server):
    page.check("[name=mode][value=document]", force=True)
    page.focus("#document")
    page.keyboard.type("Once")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".turn")
    page.wait_for_selector("#stop", state="hidden")  # the turn is drawn before the server has been asked
    assert server.asked[0][1]["prompt"] == "Once\n"


def test_control_slash_leads_to_the_prompt(page):
    page.focus("#seed")
    page.keyboard.press("Control+/")
    assert focused(page) == "message"


def test_arrows_walk_along_the_tokens(page, ask):
    ask(page)
    page.focus(".text")
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").text_content() == '"Light", token 100: the model’s own'
    page.keyboard.press("ArrowRight")
    told = '" from", token 100: drafted by lookup, depth 1, kept by the model'
    assert page.locator("#tip").text_content() == told
    assert page.locator("#status").text_content() == told
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").text_content().startswith('"."')
    page.keyboard.press("Home")
    assert page.locator("#tip").text_content().startswith('"Light"')
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_pointing_at_a_token_tells_the_same(page, ask):
    ask(page)
    page.hover(".token >> nth=5")
    assert (
        page.locator("#tip").text_content() == '" scattered", token 101: drafted by sparse, depth 2, kept by the model'
    )


def test_arrows_walk_along_the_recall_map(page, ask):
    ask(page, "A question of some length, so that there is a text to show for its parts. " * 8)
    page.focus(".recall")
    page.keyboard.press("ArrowRight")
    assert page.locator(".recall .hint").text_content() == "Part 1 of 64: 50.0 % of the reads. About here:"
    assert "A question".startswith(page.locator(".recall blockquote").text_content()[:8])
    page.keyboard.press("End")
    assert page.locator(".recall .hint").text_content().startswith("Part 64 of 64")


def test_the_answer_is_read_out_by_sentences(page, ask):
    ask(page)
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    assert page.locator("#said p").all_text_contents() == [TEXT]
    assert page.locator("#status").text_content() == "Answer finished."


def test_modes_change_by_arrow_keys(page):
    page.focus("[name=mode][value=chat]")
    page.keyboard.press("ArrowRight")
    assert page.locator("#document").is_visible()
    assert page.locator("#message-label").text_content() == "Question"
