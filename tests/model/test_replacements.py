"""Tokenizer files whose replacements blow texts up are refused before any text is read."""

import json

import pytest

from glimpse.errors import ModelError
from glimpse.model.tokenizer import load_tokenizer
from tests.tiny import tiny_config, write_json, write_tokenizer

LETTER = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 2_000}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "_"}


def loaded(folder, part, value):
    write_json(folder / "config.json", tiny_config("llama", vocab_size=300))
    write_tokenizer(folder, 300)
    path = folder / "tokenizer.json"
    write_json(path, json.loads(path.read_text()) | {part: value})
    return load_tokenizer(folder)


@pytest.mark.parametrize(
    "steps", [[LETTER], [{**LETTER, "content": "a" * 9}] * 2, [{"type": "Prepend", "prepend": "a" * 99}]]
)
def test_a_normalizer_that_multiplies_is_refused(tmp_path, steps):
    with pytest.raises(ModelError, match=r"normalizer makes [0-9,]+ characters of one; 64 are the most"):
        loaded(tmp_path, "normalizer", {"type": "Sequence", "normalizers": steps})


def test_a_decoder_that_multiplies_is_refused(tmp_path):
    with pytest.raises(ModelError, match="decoder makes 2,000 characters of one"):
        loaded(tmp_path, "decoder", {"type": "Sequence", "decoders": [BYTES, LETTER]})


@pytest.mark.parametrize(
    "value", [None, SPACES, {"type": "Sequence", "normalizers": [{"type": "NFC"}, SPACES, SPACES]}]
)
def test_what_tokenizers_do_is_let_through(tmp_path, value):
    tokenizer = loaded(tmp_path, "normalizer", value)
    shown = tokenizer.decode(tokenizer.encode("a b"))
    assert shown == ("a b" if value is None else "a_b")
