"""Prompts: from options, files and standard input; with and without the chat template."""

import io
import sys

import pytest
from fake_llm import FakeTokenizer


@pytest.fixture
def encode():
    return FakeTokenizer().encode


def test_the_chat_template_is_used_when_there_is_one(glimpse, encode):
    assert glimpse("generate", "--prompt", "Hi").llm.prompts == [[1, *encode("Hi"), 2]]


def test_no_chat_puts_the_plain_text(glimpse, encode):
    assert glimpse("generate", "--prompt", "Hi", "--no-chat").llm.prompts == [encode("Hi")]


def test_the_system_message_comes_first(glimpse, encode):
    assert glimpse("generate", "--prompt", "Hi", "--system", "Be").llm.prompts == [[1, *encode("BeHi"), 2]]


def test_without_a_template_the_text_is_plain_and_chat_is_refused(glimpse, encode, monkeypatch):
    monkeypatch.setattr(FakeTokenizer, "has_chat_template", False)
    assert glimpse("generate", "--prompt", "Hi").llm.prompts == [encode("Hi")]
    for argv in (["--chat"], ["--system", "Be"]):
        ran = glimpse("generate", "--prompt", "Hi", *argv)
        assert ran.code == 2
        assert "no chat template" in ran.err


def test_system_contradicts_no_chat(glimpse):
    assert glimpse("generate", "--prompt", "Hi", "--system", "Be", "--no-chat").code == 2


def test_the_question_follows_the_file(glimpse, encode, tmp_path):
    document = tmp_path / "doc.txt"
    document.write_bytes("\ufeffnaïve 🤗\r\n".encode())
    ran = glimpse("generate", "--prompt-file", str(document), "--prompt", "Why?", "--no-chat")
    assert ran.llm.prompts == [encode("naïve 🤗\r\n\n\nWhy?")]


def test_a_dash_reads_standard_input(glimpse, encode, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("été".encode())))
    assert glimpse("generate", "--prompt-file", "-", "--no-chat").llm.prompts == [encode("été")]


def _latin1(folder):
    (folder / "latin1.txt").write_bytes("été".encode("latin-1"))
    return folder / "latin1.txt"


def _empty(folder):
    (folder / "empty.txt").touch()
    return folder / "empty.txt"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_latin1, "not UTF-8 text (byte 0xe9 at offset 0)"),
        (_empty, "is empty"),
        (lambda folder: folder, "is a folder"),
        (lambda folder: folder / "none.txt", "does not exist"),
        (lambda folder: f"{folder}/a\0b", "cannot be read"),
    ],
)
def test_a_file_that_is_no_text_is_refused_before_a_model_is_opened(glimpse, tmp_path, make, said):
    ran = glimpse("generate", "--prompt-file", str(make(tmp_path)))
    assert (ran.code, ran.out, ran.llm) == (2, "", None)
    assert said in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "no prompt: give --prompt TEXT"),
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt", "a\udce9"], "--prompt is not valid UTF-8: broken at character 2"),
    ],
)
def test_no_prompt_no_model(glimpse, argv, said):
    ran = glimpse("generate", *argv)
    assert (ran.code, ran.llm) == (2, None)
    assert said in ran.err
