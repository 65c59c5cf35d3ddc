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
        (lambda folder: "/dev/zero", "more than the 268,435,456 bytes that are read"),
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


def test_a_schema_without_an_end_is_refused(glimpse):
    ran = glimpse("generate", "--prompt", "Hi", "--json-schema", "/dev/zero")
    assert (ran.code, ran.llm) == (2, None)
    assert "more than the 1,048,576 bytes that are read" in ran.err


@pytest.mark.parametrize("chat", [True, False])
def test_a_prompt_is_read_for_the_context_it_has_to_fit(glimpse, monkeypatch, chat):
    """What cannot fit is refused before it is split, by the tokenizer (tests/hostile/test_long_prompts.py)."""
    most = []
    read = FakeTokenizer.chat if chat else FakeTokenizer.encode

    def told(self, given, **options):
        most.append(options.get("most"))
        return read(self, given)

    monkeypatch.setattr(FakeTokenizer, "chat" if chat else "encode", told)
    assert glimpse("generate", "--prompt", "Hi", "--chat" if chat else "--no-chat", "--max-context", "77").code == 0
    assert most[0] == 77
