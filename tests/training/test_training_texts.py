"""Texts to train on: what is read, and what is refused with the reason."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from glimpse.errors import ArgumentError
from glimpse.training.texts import Corpus, read_corpus

TEXT = "the rain in the north and the stones on the shore " * 20


def stored(array, **options) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def archive() -> bytes:
    file = io.BytesIO()
    np.savez(file, ids=np.arange(50))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x.npy: cannot be read: No data left in file"),
        (b"not numpy", "x.npy: cannot be read"),
        (stored(np.arange(50))[:100], "x.npy: cannot be read"),
        (stored(np.arange(50) / 7), "x.npy: holds float64, and token ids are whole numbers"),
        (stored(np.ones(50, bool)), "x.npy: holds bool, and"),
        (stored(np.array(["5"] * 50)), "x.npy: holds <U1, and"),
        (stored(np.array([{}] * 50, object), allow_pickle=True), "x.npy: cannot be read: Object arrays"),
        (archive(), "x.npy: holds an archive, and"),
        (stored(np.array([4] * 50 + [-5])), "x.npy: token id -5 in it, and the model has 0 to 299"),
        (stored(np.full(50, 300)), "x.npy: token id 300 in it, and the model has 0 to 299"),
        (stored(np.full(50, 2**63 + 5, np.uint64)), f"x.npy: token id {2**63 + 5} in it"),
    ],
)
def test_ids_that_are_none_are_refused(tiny, tmp_path, content, message):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ArgumentError, match=message) as told:
        read_corpus(tmp_path, tiny.tokenizer, 24, 300)
    assert str(told.value).count("x.npy") == 1


def test_what_is_no_text_is_left_out(tiny, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    alone = read_corpus(tmp_path, tiny.tokenizer, 24, 300)
    (tmp_path / "image.png").write_bytes(bytes(range(128, 256)) * 40)
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "b.txt").write_text(TEXT)
    np.save(tmp_path / "none.npy", np.zeros(0, np.int64))
    np.save(tmp_path / "one.npy", np.array(5))
    assert read_corpus(tmp_path, tiny.tokenizer, 24, 300).digest == alone.digest


def test_two_sequences_are_enough_and_fewer_are_not(tiny, tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(47))
    with pytest.raises(ArgumentError, match="fewer than two sequences of 24 tokens"):
        read_corpus(tmp_path, tiny.tokenizer, 24, 300)
    np.save(tmp_path / "ids.npy", np.arange(48).astype(np.uint16))
    corpus = read_corpus(tmp_path, tiny.tokenizer, 24, 300)
    assert (corpus.train.tolist(), corpus.held.tolist()) == ([list(range(24))], [list(range(24, 48))])


@pytest.mark.parametrize(
    ("held", "most", "found"), [(3, 8, [0, 1, 2]), (16, 8, range(0, 16, 2)), (17, 8, range(0, 17, 3))]
)
def test_held_out_sequences_that_are_looked_at_are_of_all_texts(held, most, found):
    """The first ones alone were all of one book: what an adapter made of answers was never seen."""
    sequences = torch.arange(held)[:, None]
    names = [f"{place}.txt" for place in range(held)]
    seen = Corpus(sequences, sequences, names).looked_at(most)
    assert [(name, int(tokens)) for name, tokens in seen] == [(names[place], place) for place in found]


def test_held_out_sequences_have_the_names_of_their_files(tiny, tmp_path):
    (tmp_path / "b").mkdir()
    np.save(tmp_path / "a.npy", np.arange(24 * 10))
    np.save(tmp_path / "b" / "c.npy", np.arange(24 * 17))
    corpus = read_corpus(tmp_path, tiny.tokenizer, 24, 500)
    assert [(name, int(row[0])) for name, row in zip(corpus.names, corpus.held, strict=True)] == [
        ("a.npy", 8 * 24),
        ("b/c.npy", 14 * 24),
    ]
