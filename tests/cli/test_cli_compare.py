"""`glimpse compare`: the same text or not, both speeds, and honest words where a drafter cannot pay."""

from types import SimpleNamespace

import pytest
from fake_llm import WORDS, FakeLLM

from glimpse.cli import demo_text
from glimpse.outputs import Comparison

TEXT = "".join(WORDS)


def test_it_says_what_was_found(glimpse):
    ran = glimpse("compare", "--prompt", "Hello")
    assert ran.code == 0
    assert ran.out.count(TEXT) == 1
    assert "identical: yes, all 7 tokens" in ran.out
    assert "67%" in ran.out
    assert "plain:       prefill 0.25 s · decode 0.50 s · 12.0 tokens/s" in ran.out
    assert "speedup: measured 1.02×, predicted 1.01×" in ran.out
    assert "Why no gain" not in ran.out


def test_json_is_one_object(glimpse):
    result = glimpse("compare", "--prompt", "Hello", "--json").json()
    assert result["identical"] is True
    assert result["first_divergence"] is None
    assert result["speedup"] == 1.02
    assert result["baseline"]["speculation"]["drafter"] == "none"
    assert result["speculative"]["text"] == TEXT


def test_the_sparse_drafter_says_why_it_cannot_pay_and_where_it_would(glimpse):
    # W = 538 MB; K = 14 positions of 46,080 bytes; 538e6 / 46,080 = 11,676 tokens
    out = " ".join(glimpse("compare", "--prompt", "Hello", "--drafter", "sparse").out.split())
    assert "Why no gain: a plain step reads 538 MB of weights and 1 MB of cache" in out
    assert "and so costs 1.00 of it" in out
    assert "from 11,676 tokens (this model's context ends at 8,192), or 834 such requests at once" in out
    assert "--drafter lookup" in out


def test_a_short_context_is_read_whole_by_a_draft_step_too(glimpse, monkeypatch):
    """14 positions are fewer than the 256 that a sparse draft reads at least, however large their cache."""
    dear = SimpleNamespace(step_weight_bytes=lambda _: 538_000_000, kv_bytes_per_token=lambda _: 38_000_000)
    monkeypatch.setattr(FakeLLM, "spec", property(lambda _: dear, lambda *_: None), raising=False)
    out = " ".join(glimpse("compare", "--prompt", "Hello", "--drafter", "sparse").out.split())
    assert "and 532 MB of cache" in out
    assert "and so costs 1.00 of it" in out


def test_no_excuse_where_the_cache_outweighs_the_weights(glimpse, monkeypatch):
    heavy = SimpleNamespace(step_weight_bytes=lambda _: 1, kv_bytes_per_token=lambda _: 46_080)
    monkeypatch.setattr(FakeLLM, "spec", property(lambda _: heavy, lambda *_: None), raising=False)
    assert "Why no gain" not in glimpse("compare", "--prompt", "Hello", "--drafter", "sparse").out


@pytest.mark.parametrize(
    ("acceptance", "temperature", "excused"), [("coupled", 0.8, False), ("matched", 0.8, True), ("matched", 0.0, False)]
)
def test_a_difference_is_named_with_its_place(glimpse, monkeypatch, acceptance, temperature, excused):
    def differing(llm, prompt, params, on_chunk):
        llm.prompts.append(prompt)
        llm.settings["temperature"] = temperature
        longer, shorter = llm._output(7, drafter="none"), llm._output(5)
        shorter.speculation.acceptance = acceptance
        return Comparison(baseline=longer, speculative=shorter, speedup=None, margin=0.00012)

    monkeypatch.setattr(FakeLLM, "compare", differing)
    ran = glimpse("compare", "--prompt", "Hello")
    assert ran.code == 0
    assert "identical: NO, they part at token 6, where plain decoding preferred its own by 0.00012 nats" in ran.out
    assert ("promises the same law" in " ".join(ran.out.split())) is excused
    assert "measured unknown, predicted unknown" in ran.out


def test_several_texts_are_refused(glimpse):
    ran = glimpse("compare", "--prompt", "Hello", "--n", "2")
    assert ran.code == 2
    assert "--n 2 must be 1" in ran.err


def test_the_demo_text_is_real_long_and_within_its_tokens(glimpse):
    ran = glimpse("compare", "--demo")
    assert ran.code == 0
    [prompt] = ran.llm.prompts
    assert 0.9 * demo_text.TOKENS < len(prompt) <= demo_text.TOKENS
    params = ran.llm.params[0]
    assert {name: getattr(params, name) for name in demo_text.SAMPLING} == demo_text.SAMPLING
    assert glimpse("compare", "--demo", "--temperature", "0").llm.params[0].temperature == 0


def test_the_demo_takes_another_question_and_no_other_text(glimpse):
    asked = glimpse("compare", "--demo", "--prompt", "Why?", "--no-chat").llm
    assert asked.prompts[0][-4:] == asked.tokenizer.encode("Why?")
    assert glimpse("compare", "--demo", "--prompt-file", "doc.txt").code == 2


def test_plain_beside_plain_is_refused(glimpse):
    ran = glimpse("compare", "--prompt", "Hello", "--drafter", "none")
    assert ran.code == 2
    assert "--drafter none would be the same twice" in ran.err
