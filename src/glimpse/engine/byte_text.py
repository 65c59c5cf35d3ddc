"""Tokens to text where every token's bytes are known: what `TextStream` gives, for a look-up a token."""

from __future__ import annotations

import codecs
from typing import Protocol

from glimpse.engine.text import BROKEN, SYNC, UNFINISHED, WINDOW, TextStream
from glimpse.model.token_bytes import REPLACEMENT, TokenTexts
from glimpse.model.tokenizer import Tokenizer

_UTF8 = codecs.getincrementaldecoder("utf-8")


class Stream(Protocol):
    """The text of a growing list of tokens."""

    def push(self, token_id: int) -> str:
        """Add one token; the text that became certain with it."""

    def flush(self) -> str:
        """The unfinished tail, once; the stream is at its end."""


def text_stream(tokenizer: Tokenizer, *, skip_special_tokens: bool) -> Stream:
    """The stream that goes with a tokenizer."""
    if tokenizer.texts is None:
        return TextStream(tokenizer, skip_special_tokens=skip_special_tokens)
    return ByteStream(tokenizer.texts[skip_special_tokens])


class ByteStream:
    """What `TextStream` gives of a byte-level tokenizer, piece for piece, replacement characters held back included.

    Where that decodes the last tokens again, a decoder that goes on from byte to byte knows what is unfinished. The
    window is counted all the same, as it says when a long run of invalid bytes is cut.
    """

    def __init__(self, texts: TokenTexts) -> None:
        self._texts = texts
        self._decoder = _UTF8("replace")
        self._held = ""
        """Replacement characters that are not shown yet."""
        self._run: list[bytes] = []
        """The tokens since text was last shown to its end."""
        self._unsettled = 0
        """How many of them `TextStream` would not have settled."""
        self._window = 0

    def push(self, token_id: int) -> str:
        """Add one token; the text that became certain with it, often one word, sometimes nothing."""
        text = self._texts[token_id]
        if text is None or self._run:
            return self._push_bytes(self._texts.bytes_of(token_id))
        if text:
            self._window = self._window + 1 if self._window < WINDOW else 1
        return text

    def flush(self) -> str:
        """The unfinished tail, once; the stream is at its end."""
        tail, self._held = self._held + self._decoder.decode(b"", final=True), ""
        self._run.clear()
        return tail

    def _push_bytes(self, raw: bytes) -> str:
        if not raw:
            return ""
        self._run.append(raw)
        self._unsettled, self._window = self._unsettled + 1, self._window + 1
        known = self._held + self._decoder.decode(raw)
        text = known + self._unfinished
        end, least = len(text), max(0, len(text) - UNFINISHED) if self._unsettled > UNFINISHED else 0
        while end > least and text[end - 1] == REPLACEMENT:
            end -= 1
        self._held = known[end:]
        if end == len(text):
            self._settle()
        elif self._window > BROKEN:
            self._cut()
        return text[:end]

    @property
    def _unfinished(self) -> str:
        """How the bytes read that the decoder keeps: one replacement character, or two of half a surrogate pair."""
        return self._decoder.getstate()[0].decode(errors="replace")

    def _settle(self) -> None:
        if self._window > WINDOW:
            self._window = self._unsettled
        self._run.clear()
        self._unsettled = 0

    def _cut(self) -> None:
        tail = self._run[-SYNC:]
        if len(b"".join(tail).decode(errors="replace")) > len(self._held + self._unfinished):
            self._run, self._unsettled, self._window = tail, 0, SYNC
