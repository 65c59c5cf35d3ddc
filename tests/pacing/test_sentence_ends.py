"""Which token ids end a sentence."""

import pytest

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
