"""Which token ids end a sentence."""

import pytest
import tokenizers
from tokenizers import decoders, models
from transformers import PreTrainedTokenizerFast

from glimpse.model import Tokenizer
from glimpse.pacing.sentence_ends import ends_sentence, sentence_ends


@pytest.mark.parametrize(
    "text", [".", " word.", "?", "!", ";", "\n", "\n\n", ".\n", '."', "?)", ".**", "。", "！", " ...", "end.”"]
)
def test_these_end_one(text):
    assert ends_sentence(text)


@pytest.mark.parametrize("text", ["", " ", ",", "word", " the", ":", "(", '"', "3.5", ".py", "e.g", "\t"])
def test_these_do_not(text):
    assert not ends_sentence(text)


class Words:
    """A vocabulary of a few texts; counts how often it is read."""

    def __init__(self, *texts):
        self.texts, self.vocab_size, self.special_ids, self.reads = texts, len(texts), frozenset({0}), 0

    def decode(self, ids, *, skip_special_tokens=True):
        self.reads += 1
        return "" if ids[0] in self.special_ids else self.texts[ids[0]]


def test_a_vocabulary_is_read_once():
    words = Words("<end>", " a", ".", "\n", " b", "!")
    assert sentence_ends(words) == {0, 2, 3, 5}
    assert sentence_ends(words) == {0, 2, 3, 5}
    assert words.reads == 6
    assert sentence_ends(Words("<s>", "?")) == {0, 1}


def test_of_a_real_tokenizer(tiny):
    ends = sentence_ends(tiny.tokenizer)
    texts = {tiny.tokenizer.decode([token]) for token in ends - tiny.tokenizer.special_ids}
    assert texts == {".", "?", "!", ";", "\n"}


def sentencepiece():
    """As Llama 2: spaces are part of tokens, a newline is a byte."""
    pieces = [
        "<unk>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        ".",
        "!",
        "▁no",
        "yes",
        ",",
        ".”",
        "；",
    ]
    model = models.BPE(
        {piece: index for index, piece in enumerate(pieces)}, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True
    )
    found = tokenizers.Tokenizer(model)
    found.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return found, {"<unk>", "</s>", "<0x0A>", "<0x21>", "<0x2E>", "<0x3B>", "<0x3F>", ".", "!", ".”", "；"}


def joined():
    """As GPT-4 and Qwen: a mark and the newlines behind it are one token, in bytes written as letters."""
    pieces = ["<unk>", "</s>", ".Ċ", ".ĊĊ", "Ċ", "ĊĊ", "Ġno", "Ġ...", '?"', ",", "),", "ãĢĤ", "ãĢ", "3", ".5"]
    found = tokenizers.Tokenizer(models.WordLevel({piece: index for index, piece in enumerate(pieces)}, "<unk>"))
    found.decoder = decoders.ByteLevel()
    return found, {"<unk>", "</s>", ".Ċ", ".ĊĊ", "Ċ", "ĊĊ", "Ġ...", '?"', "ãĢĤ"}


def wordpiece():
    """As BERT: nothing of spaces or newlines is left; pieces within words are marked."""
    pieces = ["<unk>", "</s>", ".", "##.", "?", ";", "no", "##s", ",", ":"]
    found = tokenizers.Tokenizer(
        models.WordPiece({piece: index for index, piece in enumerate(pieces)}, unk_token="<unk>")
    )
    found.decoder = decoders.WordPiece()
    return found, {"<unk>", "</s>", ".", "##.", "?", ";"}


@pytest.mark.parametrize("made", [sentencepiece, joined, wordpiece])
def test_of_other_kinds_of_tokenizers(made):
    backend, right = made()
    backend.add_special_tokens(["<unk>", "</s>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", unk_token="<unk>")
    assert {backend.id_to_token(token) for token in sentence_ends(Tokenizer(fast))} == right
