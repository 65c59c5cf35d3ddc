import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_toys import EOS, SAMPLE, ByteTokenizer, byte_level_bpe, sentencepiece_like

from glimpse.engine.text import TextStream

BPE = byte_level_bpe()
PIECES = sentencepiece_like()
WORD = 257
"""The first id of `PIECES` that is no byte token."""


def stream_all(tokenizer, ids, **options):
    stream = TextStream(tokenizer, **options)
    return [*(stream.push(token) for token in ids), stream.flush()]


def byte_ids(text):
    return list(text.encode())


def fallback_ids(text):
    return [1 + byte for byte in text.encode()]


@pytest.mark.parametrize("skip", [True, False])
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_bytes_join_to_one_shot_decode(skip, data):
    tokenizer = ByteTokenizer([b" the", "日".encode(), b"\xf0\x9f", b"a\xe6", b"\x97\xa5b"])
    often = st.sampled_from([EOS, 257, 258, 259, 260, 261, 0xE6, 0x97, 0xA5, 0x80, 0xF0, 0x41])
    ids = data.draw(st.lists(often | st.integers(0, 261), max_size=90))
    pieces = stream_all(tokenizer, ids, skip_special_tokens=skip)
    assert "".join(pieces) == tokenizer.decode(ids, skip_special_tokens=skip)


@given(st.lists(st.sampled_from(range(BPE.inner.get_vocab_size())), max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_bpe_tokens_join_to_one_shot_decode(ids):
    assert "".join(stream_all(BPE, ids)) == BPE.decode(ids, skip_special_tokens=True)


@given(st.lists(st.sampled_from([0, 257, 258, 259, 260, 261, 262]) | st.characters(codec="utf-8"), max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_pieces_with_whole_characters_join_to_one_shot_decode(parts):
    ids = list(itertools.chain.from_iterable([part] if isinstance(part, int) else fallback_ids(part) for part in parts))
    assert "".join(stream_all(PIECES, ids)) == PIECES.decode(ids, skip_special_tokens=True)


def test_a_leading_space_is_no_part_of_the_character_that_follows_it():
    pieces = stream_all(PIECES, fallback_ids(" \U00010000"))
    assert "".join(pieces) == "\U00010000"


@pytest.mark.parametrize("encode", [byte_ids, BPE.encode, fallback_ids])
def test_valid_text_never_shows_a_replacement_character(encode):
    tokenizer = {byte_ids: ByteTokenizer(), fallback_ids: PIECES}.get(encode, BPE)
    pieces = stream_all(tokenizer, encode(SAMPLE))
    assert "".join(pieces) == SAMPLE
    assert not any("\ufffd" in piece for piece in pieces)
    assert pieces[-1] == ""


def test_a_character_comes_with_its_last_byte():
    assert stream_all(ByteTokenizer(), byte_ids("é🤗a")) == ["", "é", "", "", "", "🤗", "a", ""]


def test_an_unfinished_tail_is_flushed_once():
    stream = TextStream(ByteTokenizer())
    assert [stream.push(byte) for byte in b"a\xf0\x9f\xa4"] == ["a", "", "", ""]
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""


def test_invalid_bytes_come_out_when_other_text_follows():
    assert stream_all(ByteTokenizer(), b"\x80\x80x\xe6y") == ["", "", "\ufffd\ufffdx", "", "\ufffdy", ""]


def test_a_long_run_of_invalid_bytes_comes_out_as_it_grows():
    pieces = stream_all(ByteTokenizer(), [0x80] * 500 + byte_ids("日"))
    assert len("".join(pieces[:500])) == 497
    assert "".join(pieces) == "\ufffd" * 500 + "日"


def test_text_shown_is_kept_when_byte_fallback_takes_it_back():
    """The whole run becomes U+FFFD in one go; what had been shown cannot be."""
    ids = [*fallback_ids("日"), 1 + 0xFF, 1 + 0xE6, WORD + 2]
    assert PIECES.decode(ids, skip_special_tokens=True) == "\ufffd" * 5 + " the"
    assert "".join(stream_all(PIECES, ids)) == "日\ufffd\ufffd the"
    assert "".join(stream_all(PIECES, ids[:4])) == "日\ufffd"


def test_the_first_leading_space_goes_and_no_other():
    the, cat = WORD + 2, WORD + 3
    assert stream_all(PIECES, [the, cat, 0, cat]) == ["the", " cat", "", " cat", ""]
    assert stream_all(PIECES, [0, WORD, WORD, the]) == ["", "", " ", " the", ""]
    assert stream_all(PIECES, [the] * 40) == ["the", *[" the"] * 39, ""]


def test_prompt_tail_keeps_the_leading_space():
    the, cat = WORD + 2, WORD + 3
    assert stream_all(PIECES, [cat, cat], prompt_ids_tail=[the]) == [" cat", " cat", ""]


@pytest.mark.parametrize("tail", [[EOS], [0x61, 0xE6], []])
def test_prompt_tail_without_whole_visible_text_is_not_used(tail):
    assert stream_all(ByteTokenizer(), [0x97, 0x61], prompt_ids_tail=tail) == ["", "\ufffda", ""]


@pytest.mark.parametrize("ids", [byte_ids(SAMPLE) * 60, [0x80] * 2000, [EOS] * 2000, [0x61] + [EOS] * 2000])
def test_work_per_token_does_not_grow(ids):
    """Ids decoded per token: at most the window (16, or 64 in a run of invalid bytes) and a little to shorten it."""
    tokenizer = ByteTokenizer()
    stream_all(tokenizer, ids)
    assert tokenizer.decoded / len(ids) < 45


def test_special_tokens_are_shown_when_not_skipped():
    assert stream_all(ByteTokenizer(), [0x61, EOS], skip_special_tokens=False) == ["a", "<eos>", ""]
