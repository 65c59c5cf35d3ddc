"""The page in a real browser: what it asks of the server, and how it shows the answers."""

from __future__ import annotations

import json

import pytest
from fake_server import model
from scripted_answers import DONE, RECALLED, TEXT, answer, chunk


def kinds(page, pane=0):
    """(text, kind) of every token of an answer."""
    spans = page.locator(".pane").nth(pane).locator(".token").all()
    return [(span.text_content(), span.get_attribute("data-kind")) for span in spans]


def test_a_chat_is_streamed_and_every_token_marked(page, server, ask):
    ask(page)
    assert kinds(page) == [
        ("Light", "target"), ("from", "retrieval"), (" the", "retrieval"), ("sun", "target"), ("is", "sparse"),
        (" scattered", "sparse"), (" by", "sparse"), ("the", "target"), ("air", "block"), (".", "target"),
    ]  # fmt: skip
    assert page.locator(".text").text_content() == TEXT
    ((path, body),) = server.asked
    assert path == "/v1/chat/completions"
    assert body == {
        "stream": True, "stream_options": {"include_usage": True}, "speculation": True, "model": "tiny",
        "max_tokens": 256, "messages": [{"role": "user", "content": "Why is the sky blue?"}],
    }  # fmt: skip
    assert page.locator(".state").text_content() == "10 tokens · first after 0.25 s · came to its end"


def test_kinds_differ_by_more_than_colour(page, ask):
    ask(page)
    style = "(span) => getComputedStyle(span).textDecorationLine + ' ' + getComputedStyle(span).textDecorationStyle"
    marks = [
        page.locator(f".turn .token[data-kind={kind}]").first.evaluate(style)
        for kind in ("target", "sparse", "retrieval", "block")
    ]
    assert marks == ["none solid", "underline solid", "underline dotted", "underline double"]


def test_a_second_message_brings_the_first_along(page, server, ask):
    page.fill("#system", "Be brief.")
    ask(page, "one")
    ask(page, "two")
    assert server.asked[-1][1]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": TEXT},
        {"role": "user", "content": "two"},
    ]
    page.click("#clear")
    ask(page, "three")
    assert [message["content"] for message in server.asked[-1][1]["messages"]] == ["Be brief.", "three"]


def test_options_are_sent_and_remembered(page, server, ask):
    for name, value in (("drafter", "sparse"), ("pacer", "fixed")):
        page.select_option(f"#{name}", value)
    for name, value in (("temperature", "0.5"), ("seed", "7"), ("max-tokens", "33")):
        page.fill(f"#{name}", value)
    page.locator("#max-tokens").blur()
    page.reload()
    page.wait_for_selector("#drafter:has(option[value=sparse]:checked)")
    ask(page)
    sent = {name: server.asked[0][1][name] for name in ("drafter", "pacer", "temperature", "seed", "max_tokens")}
    assert sent == {"drafter": "sparse", "pacer": "fixed", "temperature": 0.5, "seed": 7, "max_tokens": 33}


def test_a_document_is_continued_or_asked_about(page, server, ask):
    page.check("[name=mode][value=document]", force=True)
    page.fill("#document", "Once upon a time")
    page.click("#send")
    page.wait_for_selector("#stop", state="hidden")
    ask(page, "Who?")
    (continued, asked) = server.asked
    assert (continued[0], continued[1]["prompt"]) == ("/v1/completions", "Once upon a time")
    assert asked[1]["messages"] == [{"role": "user", "content": "Once upon a time\n\nWho?"}]
    assert page.locator(".text").first.text_content() == TEXT


def test_the_sample_document_opens(page):
    page.click("[data-example=document]")
    page.wait_for_selector("#document-size:has-text('957 words')")
    assert page.input_value("#document").startswith("HOW GLIMPSE WRITES")


def test_comparing_runs_plainly_first_with_the_same_seed(page, server, ask):
    page.select_option("#drafter", "sparse")
    page.select_option("#pacer", "fixed")
    page.check("#compare")
    ask(page)
    (plain, drafted) = (body for _, body in server.asked)
    assert (plain["drafter"], "pacer" in plain) == ("none", False)
    assert (drafted["drafter"], drafted["pacer"]) == ("sparse", "fixed")
    assert plain["seed"] == drafted["seed"]
    assert page.locator(".pane").count() == 2
    assert {kind for _, kind in kinds(page, 0)} == {"target"}
    verdict = page.locator(".verdict").text_content()
    assert verdict.startswith("1.60 times as fast as plain decoding.The same text, token for token.")
    assert "Measured one run after the other" in verdict


def test_a_slower_run_and_another_text_are_said(page, server, ask):
    other = [[("Light", "target")], [(" of", "lookup"), (" the", "target")]]
    server.answer = lambda path, body: answer(path, body, **(
        {} if body.get("drafter") == "none" else {"rounds": other, "tokens_per_second": 20.0}
    ))  # fmt: skip
    page.check("#compare")
    ask(page)
    verdict = page.locator(".verdict").text_content()
    assert verdict.startswith("Slower here: 0.80 times the speed of plain decoding.The texts part at token 2.")


UNREST = """async (seconds) => {
  const { unrest } = await import("/static/js/verdict.js");
  let at = 0;
  return unrest({ progress: seconds.map((took, place) => ({ at: (at += took), count: place + 1 })) });
}"""


def test_a_machine_with_other_things_to_do_is_told_of(page):
    """One whose plain decoding was faster later; that it gets slower with the text is its nature."""
    said = page.evaluate(UNREST, [0.2] * 21 + [0.1] * 20)
    assert said.startswith("Plain decoding itself went at 5.0 to 10.0 tokens a second")
    for steady in ([0.1] * 41, [0.1 + place / 400 for place in range(41)], [0.2] * 10 + [0.1] * 20, []):
        assert page.evaluate(UNREST, steady) == ""


def test_figures_of_the_last_answer(page, ask):
    ask(page)
    numbers = dict(zip(*(page.locator(f"#numbers {tag}").all_text_contents() for tag in ("dt", "dd")), strict=True))
    assert numbers == {
        "Speed": "40.0 tokens/s", "First token after": "0.25 s", "Drafter, pacer": "sparse, entropy",
        "Acceptance rule": "coupled", "Drafts kept": "6 of 12 (50 %)", "Tokens a verification": "2.50",
    }  # fmt: skip
    assert page.locator("#fig-depth svg").get_attribute("aria-label") == (
        "Accepted by depth. 1: 75 % of 4; 2: 50 % of 4; 3: 25 % of 4"
    )
    assert page.locator("#fig-depth .value").all_text_contents() == ["75", "50", "25"]
    gamma = page.locator("#fig-gamma svg").get_attribute("aria-label")
    assert gamma == "Draft length over time: between 0 and 3, at last 1"
    assert page.locator("#fig-recall .cell").count() == len(RECALLED)
    assert page.locator("#legend .count").all_text_contents() == ["4", "3", "2", "1"]


def test_a_drafter_that_reads_everything_has_no_recall_map(page, server, ask):
    server.answer = lambda path, body: answer(path, body, recalled=None)
    ask(page)
    assert page.locator("#fig-depth").is_visible()
    assert page.locator("#fig-recall").is_hidden()


def test_a_server_that_marks_nothing_still_shows_its_text(page, server, ask):
    def unmarked(path, body):
        reply = answer(path, body)
        reply.events = [
            {name: part for name, part in event.items() if name not in ("glimpse", "usage")}
            if isinstance(event, dict)
            else event
            for event in reply.events
        ]
        return reply

    server.answer = unmarked
    ask(page)
    assert page.locator(".text").text_content() == TEXT


def test_what_a_model_writes_is_text_and_nothing_else(page, server, ask):
    evil = "<img src=x onerror=alert(1)><script>document.title='owned'</script>"
    server.answer = lambda path, body: answer(path, body, rounds=[[(evil, "target")]])
    ask(page, evil)
    assert page.locator(".text").text_content() == evil
    assert page.locator(".asked p").text_content() == evil
    assert page.locator("main img, main script").count() == 0
    assert page.title() == "Glimpse"


def test_another_model_brings_its_own_drafters(open_page, server, ask):
    server.models = [model(), model("other", drafters=("none",), pacers=())]
    page = open_page()
    page.select_option("#model-choice", "other")
    assert page.locator("#drafter option").all_text_contents() == ["lookup (default)", "none"]
    assert page.locator("#pacer option").all_text_contents() == ["drafter’s own"]
    ask(page)
    assert server.asked[0][1]["model"] == "other"


def test_a_run_in_which_nothing_was_drafted_says_so(page, server, ask):
    nothing = {"drafted": 0, "accepted": 0, "drafted_by_depth": [], "accepted_by_depth": [], "mean_accepted": 1.0}
    rounds = [[("Light", "target")], [(" falls", "target")]]
    server.answer = lambda path, body: answer(path, body, rounds=rounds, **nothing)
    ask(page)
    assert page.locator("#numbers dd").last.text_content() == "none made"
    assert page.locator("#fig-gamma").is_hidden()
    assert page.locator("#fig-depth").is_hidden()


@pytest.mark.parametrize(
    ("lossy", "said"),
    [("typical:0.3", "rule typical, strength 0.3"), ("slowfast", "mode slowfast"), (None, "drafter sparse")],
)
def test_a_lossy_answer_says_by_what(page, server, ask, lossy, said):
    server.answer = lambda path, body: answer(path, body, lossless=False, lossy=lossy)
    ask(page)
    numbers = dict(zip(*(page.locator(f"#numbers {tag}").all_text_contents() for tag in ("dt", "dd")), strict=True))
    assert numbers["Lossy"] == f"{said}; may differ from plain decoding"


def test_events_may_come_in_any_pieces(page, server, ask):
    def pieces(path, body):
        reply = answer(path, body)
        said = json.dumps(chunk([("é€😀", "target")], chat=True), ensure_ascii=False)
        whole = f": a comment keeps the line open\r\n\r\ndata: {said}\r\n\r\n".encode() + DONE
        reply.events = [whole[place : place + 1] for place in range(len(whole))]
        return reply

    server.answer = pieces
    ask(page)
    assert page.locator(".text").text_content() == "é€😀"
