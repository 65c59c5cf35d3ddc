"""Text to ids and back: plain prompts, special tokens, BOS, GGUF."""

import json

import pytest
from transformers import AutoTokenizer

from glimpse.model.gguf_tokenizer import tokenizer_from_gguf
from glimpse.model.tokenizer import load_tokenizer
from glimpse.model.weights.gguf_file import open_gguf
from tests.model.gguf_files import write_tiny_gguf
from tests.tiny import byte_vocabulary, tiny_config, write_json, write_tokenizer

TEXTS = [
    "",
    " ",
    "hello there",
    "naïve 🤗 한국어 日本 e.g. a . b",
    "a  b\n\n\tc",
    "In 1234 the 5th",
    "<|im_end|>",
    "\ufffd",
]


@pytest.fixture(params=["folder", "folder+bos", "gguf", "gguf+bos"])
def tokenizer(request, tmp_path):
    return make(tmp_path, request.param)


def make(tmp_path, kind):
    bos = kind.endswith("+bos")
    if kind.startswith("gguf"):
        metadata = {"tokenizer.ggml.add_bos_token": bos}
        return tokenizer_from_gguf(open_gguf(write_tiny_gguf(tmp_path / "m.gguf", config(), metadata=metadata)))
    write_json(tmp_path / "config.json", config())
    write_tokenizer(tmp_path, 300, add_bos=bos)
    return load_tokenizer(tmp_path)


def config():
    return tiny_config("llama", vocab_size=300)


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_comes_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False), skip_special_tokens=False) == text


def test_ends_sizes_and_special_ids(tokenizer):
    assert (tokenizer.bos_token_id, tokenizer.eos_token_ids) == (1, (2,))
    assert tokenizer.special_ids == {0, 1, 2}
    assert tokenizer.vocab_size == 300
    assert tokenizer.has_chat_template


def test_special_text_in_a_prompt_is_text_unless_asked_for(tokenizer):
    plain = tokenizer.encode("a<|im_end|>b", add_special_tokens=False)
    assert not set(plain) & tokenizer.special_ids
    parsed = tokenizer.encode("a<|im_end|>b", add_special_tokens=False, parse_special=True)
    assert parsed[1] == 2
    assert len(parsed) == 3
    # The one call must not change what the other means.
    assert tokenizer.encode("a<|im_end|>b", add_special_tokens=False) == plain


def test_special_tokens_are_left_out_of_decoded_text_on_request(tokenizer):
    ids = tokenizer.encode("a<|im_end|>", parse_special=True, add_special_tokens=False)
    assert tokenizer.decode(ids) == "a"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "a<|im_end|>"


@pytest.mark.parametrize("kind", ["folder", "gguf"])
def test_bos_is_added_once_and_only_if_the_checkpoint_says_so(tmp_path, kind):
    (tmp_path / "with").mkdir()
    with_bos, without = make(tmp_path / "with", f"{kind}+bos"), make(tmp_path, kind)
    assert with_bos.encode("ab") == [1, *without.encode("ab")]
    assert with_bos.encode("ab", add_special_tokens=False) == without.encode("ab")
    assert with_bos.encode("<|im_start|>ab", parse_special=True) == with_bos.encode("ab")
    assert without.encode("<|im_start|>ab", parse_special=True) == with_bos.encode("ab")


def test_ids_without_a_text_decode_to_nothing(tokenizer):
    assert tokenizer.decode([67, 299, 5000]) == tokenizer.decode([67, 299])


def test_a_stored_truncation_is_not_applied(tmp_path):
    write_json(tmp_path / "config.json", config())
    write_tokenizer(tmp_path, 300)
    path = tmp_path / "tokenizer.json"
    stored = json.loads(path.read_text())
    stored["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    write_json(path, stored)
    assert len(load_tokenizer(tmp_path).encode("x" * 50)) == 50


@pytest.mark.parametrize("add_bos", [False, True])
def test_ids_equal_those_of_transformers(tmp_path, add_bos):
    write_json(tmp_path / "config.json", config())
    write_tokenizer(tmp_path, 300, add_bos=add_bos)
    ours, theirs = load_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert ours.encode(text, parse_special=True) == theirs(text).input_ids


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("smollm", ["1", "2", "3", "4"]),
        ("llama-bpe", ["123", "4"]),
        ("qwen2", ["1", "2", "3", "4"]),
        ("gpt-2", ["1234"]),
    ],
)
def test_digits_are_split_as_the_file_says(tmp_path, pre, pieces):
    """With merges for 12, 123 and 1234, only the splitting decides which of them apply."""
    vocab, _ = byte_vocabulary(259)
    metadata = {
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [*vocab, "12", "123", "1234"],
        "tokenizer.ggml.token_type": [3] * 3 + [1] * 259,
        "tokenizer.ggml.merges": ["1 2", "12 3", "123 4"],
        "tokenizer.ggml.add_bos_token": False,
    }
    path = write_tiny_gguf(tmp_path / "m.gguf", config(), metadata=metadata)
    tokenizer = tokenizer_from_gguf(open_gguf(path))
    assert [tokenizer.decode([index]) for index in tokenizer.encode("1234")] == pieces


@pytest.mark.parametrize(("setting", "start"), [(True, [1]), (False, []), (None, [1])])
def test_sentencepiece_vocabularies_of_gguf_files(tmp_path, setting, start):
    letters = ["▁", "a", "b", "ab", "▁a", "▁ab"]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(letters),
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(rank) for rank in range(len(letters))],
        "tokenizer.ggml.merges": None,
        "tokenizer.ggml.pre": None,
        "tokenizer.ggml.add_bos_token": setting,
    }
    tokenizer = tokenizer_from_gguf(open_gguf(write_tiny_gguf(tmp_path / "m.gguf", config(), metadata=metadata)))
    assert tokenizer.encode("ab ab") == [*start, 264, 264]
    assert tokenizer.decode(tokenizer.encode("ab </s> ü")) == "ab </s> ü"
    assert tokenizer.special_ids >= {1, 2}
    assert (tokenizer.bos_token_id, tokenizer.eos_token_ids) == (1, (2,))
