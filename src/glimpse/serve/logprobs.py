"""Log probabilities in the two forms of the OpenAI API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glimpse.engine.byte_text import text_stream
from glimpse.model.tokenizer import Tokenizer
from glimpse.outputs import TokenLogprob

_LOWEST = -9999.0
"""What stands for the logarithm of 0, which JSON cannot hold."""


def chat_logprobs(tokenizer: Tokenizer, entries: Sequence[TokenLogprob]) -> dict[str, Any]:
    """`choices[].logprobs` of a chat."""
    content = []
    for entry in entries:
        top = [_chat_entry(tokenizer, token, logprob) for token, logprob in entry.top]
        content.append(_chat_entry(tokenizer, entry.token_id, entry.logprob) | {"top_logprobs": top})
    return {"content": content, "refusal": None}


def _chat_entry(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, object]:
    text = token_text(tokenizer, token)
    # A token that is a part of a character has no text of its own, so none that could be told as bytes.
    raw = None if "�" in text else list(text.encode())
    return {"token": text, "logprob": max(logprob, _LOWEST), "bytes": raw}


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """What a token alone reads as, special ones by their names."""
    return tokenizer.decode([token], skip_special_tokens=False)


class CompletionLogprobs:
    """`choices[].logprobs` of a completion, in parts: `text_offset` goes on where the last part ended."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = text_stream(tokenizer, skip_special_tokens=False)
        self._offset = 0

    def part(self, tokens: Sequence[int], entries: Sequence[TokenLogprob | None]) -> dict[str, Any]:
        """The next tokens with their log probabilities; None: the first of a prompt, which nothing precedes.

        A token that begins within a character has the offset of that character.
        """
        offsets = []
        for token in tokens:
            offsets.append(self._offset)
            self._offset += len(self._stream.push(token))
        return {
            "tokens": [token_text(self._tokenizer, token) for token in tokens],
            "token_logprobs": [None if entry is None else max(entry.logprob, _LOWEST) for entry in entries],
            "top_logprobs": [None if entry is None else self._top(entry) for entry in entries],
            "text_offset": offsets,
        }

    def _top(self, entry: TokenLogprob) -> dict[str, float]:
        """The likeliest tokens, and the text's own, as the API promises: so one more than were asked for, at most."""
        told = dict((*entry.top, (entry.token_id, entry.logprob)))
        named: dict[str, float] = {}
        for token, logprob in told.items():  # parts of characters read alike: the likeliest has the name
            named.setdefault(token_text(self._tokenizer, token), max(logprob, _LOWEST))
        return named
