"""`glimpse generate`: text, marks, JSON, options honoured or refused."""

import io
import json
import sys

import fake_llm
import pytest
from fake_llm import WORDS, FakeLLM
from rich.console import Console

from glimpse.cli import app, writer
from glimpse.errors import GlimpseError
from glimpse.outputs import BrokenOff, Piece, StreamChunk

TEXT = "".join(WORDS)


def test_text_goes_to_stdout_and_the_report_to_stderr(glimpse):
    ran = glimpse("generate", "--prompt", "Hello")
    assert ran.code == 0
    assert ran.out.endswith(TEXT + "\n")
    assert "6 of 12 drafted tokens accepted in 3 rounds, 3.00 tokens a round" in ran.err
    assert "67%" in ran.err
    assert "33%" in ran.err
    assert "12.0 tokens/s" in ran.err
    assert ran.llm.closed


def test_json_is_one_object_and_nothing_else_whatever_libraries_print(glimpse):
    ran = glimpse("generate", "--prompt", "Hello", "--json")
    assert ran.code == 0
    result = json.loads(ran.out)
    assert ran.out.count("\n") == 1
    assert result["text"] == TEXT
    assert result["token_ids"] == list(range(7))
    assert result["finish_reason"] == "stop"
    assert result["usage"] == {"prompt_tokens": 7, "completion_tokens": 7}
    assert result["speculation"]["acceptance_by_position"] == [2 / 3, 2 / 3, 1 / 3, 1 / 3]
    assert result["settings"]["drafter"] == "auto"
    assert "a library that prints on stdout" in ran.err


def test_quiet_leaves_only_the_text(glimpse):
    ran = glimpse("generate", "--prompt", "Hello", "--quiet")
    assert (ran.code, ran.err) == (0, "")


def test_no_stream_shows_the_same_text(glimpse):
    assert glimpse("generate", "--prompt", "Hello", "--no-stream").out == glimpse("generate", "--prompt", "Hello").out


def test_an_error_in_mid_text_stands_on_a_line_of_its_own(glimpse, monkeypatch):
    def broken(self, written):
        yield StreamChunk("The", (0,), (Piece("The", 0, False),))
        raise GlimpseError("logits are not finite")

    monkeypatch.setattr(FakeLLM, "_chunks", broken)
    ran = glimpse("generate", "--prompt", "Hello")
    assert (ran.code, ran.out.endswith("The\n")) == (1, True)
    assert ran.err.endswith("glimpse: logits are not finite\n")


def test_finished_texts_are_shown_where_another_broke_off(glimpse, monkeypatch):
    def broken(self, prompts, params=None):
        self.prompts.append(prompts)
        raise BrokenOff([self._output(), None], GlimpseError("logits are not finite"))

    monkeypatch.setattr(FakeLLM, "generate", broken)
    ran = glimpse("generate", "--prompt", "Hello", "-n", "2")
    assert ran.code == 1
    assert ran.out.endswith(f"[1 of 2]\n{TEXT}\n")
    assert "glimpse: 1 of 2 texts broke off: logits are not finite" in ran.err
    ran = glimpse("generate", "--prompt", "Hello", "-n", "2", "--json")
    first, second = json.loads(ran.out)["outputs"]
    assert (ran.code, first["text"], second) == (1, TEXT, None)


def test_model_options_reach_the_model_and_the_others_stay_its_own(glimpse):
    given = glimpse("generate", "-m", "folder", "--drafter", "sparse", "--budget", "0.2", "--prompt", "x").llm.options
    assert given.given() == {"model": "folder", "drafter": "sparse", "budget": 0.2}


def test_every_sampling_option_reaches_the_params(glimpse):
    flags = {
        "max_tokens": ("9", 9), "min_tokens": ("2", 2), "temperature": ("0", 0.0), "top_p": ("0.9", 0.9),
        "top_k": ("0", 0), "min_p": ("0.1", 0.1),
        "repetition_penalty": ("1.1", 1.1), "frequency_penalty": ("-0.5", -0.5),
        "presence_penalty": ("0.5", 0.5), "logit_bias": ("5=-2.5,7=1", {5: -2.5, 7: 1.0}), "stop": ("END", ("END",)),
        "stop_token_ids": ("3, 4", (3, 4)), "bad_words": ("no", ("no",)), "suppress_tokens": ("8", (8,)),
        "seed": ("0", 0), "logprobs": ("2", 2), "prompt_logprobs": ("0", 0), "n": ("1", 1),
    }  # fmt: skip
    argv = [part for name, (value, _) in flags.items() for part in (f"--{name.replace('_', '-')}", value)]
    ran = glimpse("generate", "--prompt", "x", "--json", "--ignore-eos", *argv)
    assert ran.code == 0, ran.err
    params = ran.llm.params[0]
    assert {name: getattr(params, name) for name in flags} == {name: value for name, (_, value) in flags.items()}
    assert params.ignore_eos is True


def test_options_left_out_stay_unset(glimpse):
    params = glimpse("generate", "--prompt", "x").llm.params[0]
    assert set(params.as_dict().values()) == {None}


def test_what_a_text_must_be(glimpse, tmp_path):
    file = tmp_path / "schema.json"
    file.write_text('{"type": "object"}')
    for argv, grammar in (
        (["--json-schema", str(file)], {"json_schema": {"type": "object"}}),
        (["--regex", "[a-z]+"], {"regex": "[a-z]+"}),
    ):
        assert glimpse("generate", "--prompt", "x", *argv).llm.params[0].grammar == grammar
    file.write_text("{")
    for argv, named in (
        (["--json-schema", str(file)], "--json-schema"),
        (["--json-schema", "x", "--regex", "a"], "--regex"),
    ):
        ran = glimpse("generate", "--prompt", "x", *argv)
        assert (ran.code, named in ran.err) == (2, True)


def test_several_texts_in_text_and_in_json(glimpse):
    assert glimpse("generate", "--prompt", "x", "-n", "3", "--quiet").out.count(TEXT) == 3
    outputs = glimpse("generate", "--prompt", "x", "-n", "3", "--json").json()["outputs"]
    assert [one["text"] for one in outputs] == [TEXT] * 3


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--temperature", "-1"], "temperature"),
        (["--top-p", "1.5"], "top_p"),
        (["--logit-bias", "5:2"], "--logit-bias '5:2'"),
        (["--logit-bias", "5"], "--logit-bias '5'"),
        (["--logit-bias", "5=1,7=2", "--logit-bias", "5=3"], "token 5 has the bias 1 already"),
        (["--stop-token-ids", "1,x"], "--stop-token-ids 'x'"),
        (["--suppress-tokens", "-1"], "--suppress-tokens '-1'"),
        (["--max-tokens", "many"], "'many'"),
        (["--no-such-option"], "--no-such-option"),
        (["--logprobs", "2"], "--json"),
        (["--stop", "a\udcffb"], "--stop is not valid UTF-8"),
        (["extra"], "extra"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_2(glimpse, argv, named):
    ran = glimpse("generate", "--prompt", "x", *argv)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("glimpse: ")
    assert ran.err.count("\n") == 1
    assert named in ran.err


def test_drafted_and_accepted_tokens_are_marked_on_a_terminal(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    console = Console(file=shown, force_terminal=True, color_system="standard", width=40)
    monkeypatch.setattr(writer, "Console", lambda **_: console)
    out = writer.Writer()
    for chunk in _chunks():
        out.write(chunk)
    out.finish()
    assert "\x1b[4;32m cat\x1b[0m" in shown.getvalue()
    assert "\x1b[4;32m on" not in shown.getvalue()


def test_control_characters_of_a_text_do_not_reach_the_terminal():
    assert writer.marked([("a\x1b[2Jb\r\n\tc\x9b", False)]).plain == "a␛[2Jb␍\n\tc\ufffd"


def _chunks():
    class Options:
        model = drafter = budget = max_context = None

    llm = FakeLLM(Options, lambda *_: None)
    return llm.stream([1, 2, 3])


def test_characters_that_stdout_lacks_become_escapes(fake, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(fake_llm, "WORDS", ("naïve", " 🤗", "", "", "", "", "."))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert app.run(["generate", "--prompt", "x", "--quiet"]) == 0
    assert written.getvalue().endswith(b"na\\xefve \\U0001f917.\n")
