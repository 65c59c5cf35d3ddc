"""The prompt: from options, a file or standard input, then as token ids with or without the chat template."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from glimpse.cli.parsing import text
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from glimpse.cli.contract import Model, Tokenizer
    from glimpse.cli.options import PromptOptions


_MOST = 256 << 20
"""Bytes of a prompt: more than any context holds, and read whole before anything is known of the model."""


def read(options: PromptOptions) -> str:
    """The prompt's text: the file, then the prompt below it. Raises ArgumentError when there is no text."""
    parts = []
    if options.prompt_file is not None:
        parts.append(_decoded(options.prompt_file, _bytes(options.prompt_file)))
    if options.prompt is not None:
        parts.append(text("--prompt", options.prompt))
    if not parts:
        raise ArgumentError("no prompt: give --prompt TEXT, --prompt-file FILE (- reads standard input) or both")
    prompt = "\n\n".join(part for part in parts if part)
    if not prompt:
        raise ArgumentError("the prompt is empty: --prompt needs at least one character")
    return prompt


def encode(prompt: str, options: PromptOptions, llm: Model) -> list[int]:
    """Token ids of `prompt`, through the chat template when there is one or --chat asks for it.

    Raises ArgumentError when --chat or --system needs a template that the checkpoint lacks, or --no-chat forbids it;
    for text that the context cannot hold too.
    """
    most: Any = llm.settings["context_length"]
    if _chats(options, llm.tokenizer):
        messages = [{"role": "system", "content": text("--system", options.system)}] if options.system else []
        return llm.tokenizer.chat([*messages, {"role": "user", "content": prompt}], most=most)
    return llm.tokenizer.encode(prompt, most=most)


def _chats(options: PromptOptions, tokenizer: Tokenizer) -> bool:
    if options.system is not None and options.chat is False:
        raise ArgumentError("--system needs the chat template, and --no-chat turns it off: leave one of them out")
    wanted = options.chat or options.system is not None
    if wanted and not tokenizer.has_chat_template:
        raise ArgumentError("this checkpoint has no chat template: leave out --chat and --system")
    return tokenizer.has_chat_template if options.chat is None else options.chat


def _bytes(name: str) -> bytes:
    if name == "-":
        if sys.stdin is None:
            raise ArgumentError("--prompt-file - reads standard input, and that is closed")
        return read_whole(sys.stdin.buffer, "standard input", _MOST)
    path = Path(name)
    if path.is_dir():
        raise ArgumentError(f"--prompt-file {name} is a folder; it must be a text file")
    try:
        with path.open("rb") as file:
            return read_whole(file, f"--prompt-file {name}", _MOST)
    except FileNotFoundError:
        raise ArgumentError(f"--prompt-file {name} does not exist") from None
    except (OSError, ValueError) as error:
        raise ArgumentError(
            f"--prompt-file {name} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None


def read_whole(file: BinaryIO, source: str, most: int) -> bytes:
    """All of a file. Raises ArgumentError naming `source` for one of more than `most` bytes, or without an end."""
    content = file.read(most + 1)
    if len(content) > most:
        raise ArgumentError(f"{source} has more than the {most:,} bytes that are read")
    return content


def _decoded(name: str, content: bytes) -> str:
    source = "standard input" if name == "-" else f"--prompt-file {name}"
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArgumentError(
            f"{source} is not UTF-8 text (byte {error.object[error.start]:#04x} at offset {error.start}); convert it"
        ) from None
    if not decoded:
        raise ArgumentError(f"{source} is empty")
    return decoded
