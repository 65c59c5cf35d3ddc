"""Where tokens have bytes of their own: each piece is what decoding the last tokens together gives, whatever comes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.text_toys import SAMPLE, Fast, byte_level_bpe, sentencepiece_like
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from glimpse.engine.byte_text import ByteStream, text_stream
from glimpse.engine.text import TextStream
from glimpse.model.token_bytes import token_texts

PLAIN = byte_level_bpe()
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def with_everything() -> Fast:
    """Single bytes, halves of characters, U+FFFD itself, added tokens with and without spaces, special and not."""
    inner = Tokenizer(models.BPE({name: place for place, name in enumerate(ALPHABET)}, []))
    inner.decoder = decoders.ByteLevel()
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.add_tokens(
        [AddedToken(text, normalized=False) for text in ("<tool>", "two words", "日本", "ï¿½", "ðŁ", "ŀĪ", "aæ")]
    )
    inner.add_special_tokens([AddedToken("<eos>", special=True), AddedToken("a special one", special=True)])
    return Fast(inner)


TOYS = [PLAIN, with_everything()]


def both(tokenizer, ids, *, skip):
    """The pieces of the one and of the other."""
    special = {added.content for added in tokenizer.inner.get_added_tokens_decoder().values() if added.special}
    found = []
    for stream in (ByteStream(token_texts(tokenizer.inner, special)[skip]), TextStream(tokenizer, (), skip)):
        found.append([*map(stream.push, ids), stream.flush(), stream.flush()])
    return found


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("tokenizer", TOYS, ids=["trained", "everything"])
@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_any_tokens_give_the_same_pieces(tokenizer, skip, data):
    size = tokenizer.inner.get_vocab_size()
    few = data.draw(st.lists(st.integers(0, size + 1), min_size=1, max_size=6))
    ids = data.draw(st.lists(st.sampled_from(few) | st.integers(0, size + 1), max_size=300))
    own, right = both(tokenizer, ids, skip=skip)
    assert own == right


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("tokenizer", TOYS, ids=["trained", "everything"])
def test_long_runs_of_invalid_bytes_give_the_same_pieces(tokenizer, seed):
    """Runs longer than the window, of bytes that begin characters, go on with them, or neither."""
    draw = random.Random(seed)
    odd = [
        token
        for token in range(tokenizer.inner.get_vocab_size())
        if "\ufffd" in tokenizer.decode([token], skip_special_tokens=False)
    ]
    ids = []
    while len(ids) < 600:
        ids += draw.choices(draw.sample(odd, 3), k=draw.randint(1, 150)) + draw.choices(range(60), k=draw.randint(0, 3))
    own, right = both(tokenizer, ids, skip=True)
    assert own == right
    assert "".join(own) == tokenizer.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("tokenizer", TOYS, ids=["trained", "everything"])
def test_real_text_gives_the_same_pieces(tokenizer):
    ids = tokenizer.encode(SAMPLE + "Ω🤗 ".join(["the hat and the cat"] * 20))
    own, right = both(tokenizer, ids, skip=True)
    assert own == right
    assert "\ufffd" not in "".join(own)


def test_who_has_no_bytes_of_tokens_keeps_the_other_way(tiny):
    assert token_texts(sentencepiece_like().inner, ()) is None
    assert isinstance(text_stream(tiny.tokenizer, skip_special_tokens=True), ByteStream)
