"""Text to token ids and back, around a transformers fast tokenizer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glimpse.errors import ArgumentError, GlimpseError, ModelError
from glimpse.model.chat import bounded_template, encode_chat, refuse_powers, texts_of
from glimpse.model.replacements import refuse_bombs
from glimpse.model.token_bytes import token_texts

Message = Mapping[str, str]
_SLACK = 4
"""Characters of a text for each of a token's, at most: some tokenizers put characters together before they split."""


class Tokenizer:
    """A tokenizer whose prompts are plain text: `<|im_end|>` in one is ten characters unless parsing is asked for."""

    def __init__(self, fast: Any) -> None:
        """Raises ModelError for one that blows texts up."""
        self._fast = fast
        self._backend = fast.backend_tokenizer
        refuse_bombs(self._backend)
        # A tokenizer.json may carry the truncation and padding of its training run.
        self._backend.no_truncation()
        self._backend.no_padding()
        self._lock = threading.Lock()
        added = self._backend.get_added_tokens_decoder()
        self.special_texts: dict[str, int] = {token.content: index for index, token in added.items() if token.special}
        self.texts = token_texts(self._backend, self.special_texts)
        """Of each token, by whether special ones are skipped, where they have texts of their own (see there)."""
        self.special_ids: frozenset[int] = frozenset(self.special_texts.values()) | set(fast.all_special_ids)
        vocabulary = self._backend.get_vocab(with_added_tokens=True)
        self._longest = max(map(len, vocabulary))
        self.vocab_size: int = 1 + max(vocabulary.values())
        """One more than the largest id with a text. A model may have more rows; they have no text."""
        self.bos_token_id: int | None = fast.bos_token_id
        self.eos_token_ids: tuple[int, ...] = () if fast.eos_token_id is None else (fast.eos_token_id,)
        self.has_chat_template: bool = bool(fast.chat_template)
        template = str(fast.chat_template)
        self.knows_tools: bool = "tools" in template and "<tool_call>" in template
        """Whether the chat template tells the model of tools, to be called by `<tool_call>`."""

    @property
    def fast(self) -> Any:
        """The transformers tokenizer itself, for libraries that take one."""
        return self._fast

    def encode(
        self, text: str, *, add_special_tokens: bool = True, parse_special: bool = False, most: int | None = None
    ) -> list[int]:
        """Token ids of `text`.

        `add_special_tokens` adds what the checkpoint puts around a text (often BOS). `parse_special` reads `<|im_end|>`
        and the like as single special tokens; then a BOS written in the text counts, and none is added before it.
        Raises ArgumentError for text that UTF-8 cannot hold, and for text so long that it cannot be `most` tokens: to
        find out how many it is would take time and memory.
        """
        self._refuse_longer(len(text), most)
        _check_text(text)
        with self._lock, tokenizing("the tokenizer cannot split this text"):
            self._backend.encode_special_tokens = not parse_special
            ids: list[int] = self._backend.encode(text, add_special_tokens=add_special_tokens).ids
        doubled = parse_special and add_special_tokens and ids[:2] == [self.bos_token_id] * 2
        return ids[1:] if doubled else ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of `ids`, spaces exactly as the tokens have them. Ids without a text add nothing."""
        with tokenizing("the tokenizer cannot decode these tokens"):
            text: str = self._backend.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = True
    ) -> str:
        """The chat template filled in, as text. Raises ArgumentError where the template refuses the messages."""
        if not self.has_chat_template:
            raise ArgumentError("this checkpoint has no chat template; pass the prompt as text")
        try:
            for template in self._templates():
                refuse_powers(template)
            with bounded_template():
                text: str = self._fast.apply_chat_template(
                    [dict(message) for message in messages],
                    tools=list(tools) if tools else None,
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                )
        except Exception as error:  # templates raise whatever they like
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ArgumentError(f"the chat template refuses these messages: {reason}") from error
        return text

    def _templates(self) -> list[str]:
        """The template, or all of several by name."""
        found = self._fast.chat_template
        return [str(one) for one in (found.values() if isinstance(found, Mapping) else [found])]

    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
        most: int | None = None,
    ) -> list[int]:
        """Ids of a conversation: what the chat template gives and nothing more, so no second BOS is put before it.

        `tools`: functions that the model may call, as the template takes them (OpenAI's form).

        Special-token text inside a message stays text (see `chat.encode_chat`). Raises ArgumentError for messages that
        are not role and content strings, that the template refuses, or that are too long (see `encode`).
        """
        self._refuse_longer(sum(map(len, texts_of([messages, tools or ()]))), most)
        return encode_chat(self, messages, tools or (), add_generation_prompt=add_generation_prompt, most=most)

    def _refuse_longer(self, characters: int, most: int | None) -> None:
        if most is not None and characters > _SLACK * self._longest * most:
            raise ArgumentError(f"the text has {characters:,} characters, more than {most:,} tokens can hold")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = f"character {error.start} is {text[error.start]!r}"
        raise ArgumentError(f"the text is not valid Unicode: {what}, half of a surrogate pair") from error


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a Hugging Face folder. ModelError if it has none or a broken one."""
    from transformers import AutoTokenizer

    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise ModelError(f"{folder}: no tokenizer (tokenizer.json) beside the weights")
    with tokenizing(f"{folder}: the tokenizer cannot be read"):
        fast = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if not getattr(fast, "is_fast", False):
            raise ModelError(f"{folder}: the tokenizer has no fast form (tokenizer.json); convert it first")
        return Tokenizer(fast)


@contextmanager
def tokenizing(failure: str) -> Iterator[None]:
    """Turns whatever the libraries raise into one ModelError that begins with `failure`.

    They raise many kinds, bare Exception among them, and a panic of their Rust code is not even an Exception.
    """
    try:
        yield
    except GlimpseError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = " ".join(str(error).split())
        raise ModelError(f"{failure}: {reason}") from error
