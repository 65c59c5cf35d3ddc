"""Tokens to text, one token at a time, without ever showing half a character.

Why not `tokenizers.decoders.DecodeStream`, which does the same job: it needs the Rust tokenizer itself where here
anything that decodes will do; it keeps a run of invalid bytes back for as long as the run lasts and decodes all of it
again at every token (5,000 such tokens took 1.7 s); it raises in the middle of a generation when a byte-fallback
tokenizer takes an earlier character back; and it cannot flush an unfinished tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from glimpse.model.token_bytes import REPLACEMENT

UNFINISHED = 3
"""A UTF-8 character has at most 4 bytes, so an unfinished one shows as at most 3 replacement characters."""
WINDOW = 16
"""Tokens decoded together before the window is cut back to its last whole piece."""
BROKEN = 4 * WINDOW
"""The same where no whole piece ends: a long run of invalid bytes."""
SYNC = 8
"""Tokens kept of such a run. UTF-8 finds its place again within 4 bytes, and every kept token has at least one."""


class Decodes(Protocol):
    """What is asked of a tokenizer."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """The text of `ids`, invalid bytes as U+FFFD."""
        ...


class TextStream:
    """The text of a growing list of tokens, in pieces that are only ever appended.

    The join of all pieces is `tokenizer.decode(all ids)`, in one go. So the first token is treated as that call treats
    it: a sentencepiece tokenizer drops its leading space. Give `prompt_ids_tail` (a few last tokens of the prompt) to
    have the text continue the prompt instead, leading space included; a tail without visible text, or one that ends
    inside a character, is not used.

    Replacement characters at the end (at most three) are held back until other text or more of them follow, since the
    next token may complete them. One difference from decoding in one go, on byte-fallback tokenizers only: these turn a
    whole run of byte tokens into U+FFFD when one of them is invalid; characters of the run shown before that stay.

    A token costs one decode of at most 16 tokens or so, whatever the length of the text.
    """

    def __init__(
        self, tokenizer: Decodes, prompt_ids_tail: Sequence[int] = (), skip_special_tokens: bool = True
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._invisible: dict[int, bool] = {}
        self._ids: list[int] = []
        """The window: the tokens still decoded together."""
        self._whole = 0
        """How many tokens of the window are settled: decoded anew only as context of those that follow."""
        self._text = ""
        """The window's text."""
        self._shown = ""
        """The part of it that has been given out already."""
        context = self._decode(prompt_ids_tail)
        if context and not context.endswith(REPLACEMENT):
            self._start_from(list(prompt_ids_tail), context)

    def push(self, token_id: int) -> str:
        """Add one token; the text that became certain with it, often one word, sometimes nothing."""
        self._ids.append(token_id)
        text = self._decode(self._ids)
        if text == self._text and self._is_invisible(token_id):
            self._ids.pop()
            return ""
        if not text.startswith(self._shown):
            if text.endswith(REPLACEMENT) and len(self._ids) - self._whole <= UNFINISHED:
                # A byte-fallback run that ends in an unfinished character: what was shown comes back once it is whole.
                self._text = text
                return ""
            text = self._restart()
        self._text = text
        piece = self._show(self._certain_length())
        self._shorten()
        return piece

    def flush(self) -> str:
        """The unfinished tail, once; the stream is at its end."""
        if not self._text.startswith(self._shown):
            self._text = self._restart()
        return self._show(len(self._text))

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=self._skip_special_tokens)

    def _certain_length(self) -> int:
        """The length of the text without the replacement characters at its end that may still become something else."""
        text, least = self._text, len(self._text) - UNFINISHED
        if len(self._ids) - self._whole <= UNFINISHED:
            # A byte-fallback run takes settled bytes that had no text (a leading space) along while it is unfinished.
            least = len(self._shown)
        end = len(text)
        while end > max(0, least) and text[end - 1] == REPLACEMENT:
            end -= 1
        return end

    def _is_invisible(self, token_id: int) -> bool:
        """Whether the token never has text (a skipped special). Asked of two: a lone leading space may be dropped."""
        if token_id not in self._invisible:
            self._invisible[token_id] = self._decode([token_id, token_id]) == ""
        return self._invisible[token_id]

    def _show(self, length: int) -> str:
        piece = self._text[len(self._shown) : length]
        self._shown += piece
        return piece

    def _start_from(self, ids: list[int], text: str) -> None:
        self._ids, self._whole = ids, len(ids)
        self._text = self._shown = text

    def _restart(self) -> str:
        """Decode the unsettled tokens by themselves, because with them the tokenizer reads the settled ones anew."""
        self._ids = self._ids[self._whole :]
        self._whole, self._shown = 0, ""
        return self._decode(self._ids)

    def _shorten(self) -> None:
        if len(self._shown) == len(self._text):
            piece_start, self._whole = self._whole, len(self._ids)
            if len(self._ids) > WINDOW:
                self._shorten_to(self._ids[piece_start:])
        elif len(self._ids) > BROKEN:
            self._shorten_to(self._ids[-SYNC:])

    def _shorten_to(self, tail: list[int]) -> None:
        """Keep only `tail`, unless it has no shown text: the next token would then be treated as the first."""
        held = len(self._text) - len(self._shown)
        text = self._decode(tail)
        if len(text) > held:
            self._start_from(tail, text)
            self._shown = text[: len(text) - held]
