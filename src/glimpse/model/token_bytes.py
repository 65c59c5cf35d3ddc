"""What the tokens of a byte-level tokenizer stand for, one by one: there a text is the bytes of its tokens in a row.

GPT-2's form, which Llama 3, Qwen and SmolLM2 have too: the vocabulary writes every byte as one printable character
(https://github.com/openai/gpt-2/blob/master/src/encoder.py, `bytes_to_unicode`). A token with any other character in it
(an added one with a space) stands for its own UTF-8, as the decoder of `tokenizers` has it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

REPLACEMENT = "\ufffd"


def _byte_of_character() -> dict[str, int]:
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + place): byte for place, byte in enumerate(hidden)}


_BYTE = _byte_of_character()


class TokenTexts(dict[int, "str | None"]):
    """By id the text of a token that has one of its own; None of a token that is a part of a character, or invalid.

    Filled as it is asked: most texts use few of a vocabulary's tokens.
    """

    def __init__(self, backend: Any, skipped: Collection[str]) -> None:
        """`backend`: a `tokenizers.Tokenizer`; `skipped`: tokens that are not shown."""
        super().__init__()
        self._backend, self._skipped = backend, skipped

    def bytes_of(self, token: int) -> bytes:
        """What a token stands for; nothing where the tokenizer does not know its id."""
        name = self._backend.id_to_token(token)
        if name is None or name in self._skipped:
            return b""
        try:
            return bytes([_BYTE[character] for character in name])
        except KeyError:
            return str(name).encode()

    def __missing__(self, token: int) -> str | None:
        text: str | None = self.bytes_of(token).decode(errors="replace")
        # The character that stands for what is no text is one that may still become something else.
        if text and REPLACEMENT in text:
            text = None
        self[token] = text
        return text


def token_texts(backend: Any, special: Collection[str]) -> dict[bool, TokenTexts] | None:
    """The texts of all tokens, by whether `special` ones are skipped; None for a tokenizer that is not byte-level."""
    from tokenizers.decoders import ByteLevel

    if not isinstance(backend.decoder, ByteLevel):
        return None
    return {True: TokenTexts(backend, special), False: TokenTexts(backend, ())}
