"""Real prompts as text: questions of a .jsonl file, or passages of long documents with something to do about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from glimpse.errors import ArgumentError

_TASK = "Summarise the text below in a few sentences.\n\n"
_MOST = 512
"""Prompts; a load that sends more begins with the first again."""


def questions(path: Path) -> list[str]:
    """The first turn of every line (`{"turns": [...]}` or `{"prompt": ...}`). Raises ArgumentError for another file."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        found = [str(line["turns"][0] if "turns" in line else line["prompt"]) for line in lines]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ArgumentError(
            f"--questions {str(path)!r}: lines of JSON with turns or a prompt are wanted: {error}"
        ) from None
    if not found:
        raise ArgumentError(f"--questions {str(path)!r} holds no question")
    return found[:_MOST]


def passages(folder: Path | None, characters: int) -> list[str]:
    """Passages of so many characters, each with a task; from a folder of .txt files, or what Python's help() shows.

    Raises ArgumentError where no text is that long.
    """
    found = [
        _TASK + text[begin : begin + characters]
        for text in _texts(folder)
        for begin in range(0, len(text) - characters + 1, characters)
    ]
    if not found:
        raise ArgumentError(f"--characters {characters}: no text is that long; a smaller number is needed")
    step = max(1, len(found) // _MOST)
    return found[::step][:_MOST]


def bodies_of(prompts: list[str], *, chat: bool, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Requests for them."""
    if chat:
        return [{"messages": [{"role": "user", "content": prompt}], **options} for prompt in prompts]
    return [{"prompt": prompt, **options} for prompt in prompts]


def _texts(folder: Path | None) -> list[str]:
    if folder is None:
        from pydoc_data.topics import topics

        return ["\n\n".join(topics[name] for name in sorted(topics))]
    files = sorted(folder.rglob("*.txt"))
    if not files:
        raise ArgumentError(f"no text (*.txt) in {folder}; name a folder of long texts with --text")
    return [path.read_text(encoding="utf-8", errors="replace") for path in files]
