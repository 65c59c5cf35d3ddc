"""Token ids that end a sentence, for any tokenizer: found by decoding its vocabulary."""

from __future__ import annotations

from typing import Protocol
from weakref import WeakKeyDictionary

MARKS = ".?!;。？！；"
"""What ends a sentence (Slow-Fast Inference has . ? ! ; and newline), and the same marks in Chinese and Japanese."""
_CLOSING = " \t\"'”’»)]}*_`"
"""What may follow the mark within its token."""
_FOUND: WeakKeyDictionary[Vocabulary, frozenset[int]] = WeakKeyDictionary()


class Vocabulary(Protocol):
    """What is asked of a tokenizer."""

    vocab_size: int
    special_ids: frozenset[int]

    def decode(self, ids: list[int], *, skip_special_tokens: bool = True) -> str:
        """The text of some ids."""

    def __hash__(self) -> int:
        """By identity."""


def sentence_ends(vocabulary: Vocabulary) -> frozenset[int]:
    """Ids whose text ends with a mark (quotes and brackets may close behind it) or holds a newline, and special ones.

    Special tokens end a turn. Looked for once for each tokenizer: half a second for 49,000 ids.
    """
    found = _FOUND.get(vocabulary)
    if found is None:
        ends = (token for token in range(vocabulary.vocab_size) if ends_sentence(vocabulary.decode([token])))
        found = _FOUND[vocabulary] = frozenset(ends) | vocabulary.special_ids
    return found


def ends_sentence(text: str) -> bool:
    """Whether a sentence ends with this token's text."""
    return "\n" in text or text.rstrip(_CLOSING)[-1:] in tuple(MARKS)
