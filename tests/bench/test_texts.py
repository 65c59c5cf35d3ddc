"""Prompts from books and from what Python ships."""

import pytest
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.texts import NoText, default_folder, everyday_prompts, manual, passages
from glimpse.model.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return load_tokenizer(write_tiny_checkpoint(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("books")
    for name in ("one", "two"):
        paragraphs = [f"Paragraph {n} of book {name}, with some words in it." for n in range(200)]
        (folder / f"{name}.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")
    return folder


def test_passages_have_the_length_asked_for_and_differ(library, tokenizer):
    found = passages(library, tokenizer, 100, 6)
    assert [len(passage.ids) for passage in found] == [100] * 6
    assert [passage.book for passage in found] == ["one", "two"] * 3
    assert len({passage.digest for passage in found}) == 6
    assert all(tokenizer.decode(passage.ids).startswith("Paragraph") for passage in found)
    assert found == passages(library, tokenizer, 100, 6)


def test_books_that_are_missing_or_too_short_are_named(tmp_path, library, tokenizer):
    with pytest.raises(NoText, match="no books"):
        passages(tmp_path, tokenizer, 10, 1)
    with pytest.raises(NoText, match="has only"):
        passages(library, tokenizer, 100_000, 1)


def test_what_python_ships_needs_nothing_else(tokenizer):
    assert len(tokenizer.encode(manual(tokenizer, 300))) == 300
    prompts = everyday_prompts(tokenizer, document=300)
    assert list(prompts) == ["document", "chat", "code", "edit", "free text"]
    assert 300 < len(prompts["document"]) < 600


def test_the_folder_can_be_named_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("GLIMPSE_SHARED", raising=False)
    assert default_folder(tmp_path / "repo") == tmp_path.resolve() / "shared" / "data" / "books"
    monkeypatch.setenv("GLIMPSE_SHARED", str(tmp_path / "elsewhere"))
    assert default_folder(tmp_path / "repo") == tmp_path / "elsewhere" / "data" / "books"
