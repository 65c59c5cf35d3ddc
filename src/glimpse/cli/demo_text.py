"""A long real text that every Python ships: the language reference in `pydoc_data.topics`."""

from __future__ import annotations

from collections.abc import Callable

QUESTION = (
    "Using the reference text above, explain what happens, step by step, when a with statement is executed, and what "
    "its context manager must provide."
)
TOKENS = 4_000
SAMPLING = {"max_tokens": 128, "temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 1}
"""What the demo samples with where nothing else is asked: the settings of the published figures."""

EDIT = "Repeat this code exactly, but with the function py_scanstring renamed to scan_text:"
EDIT_TOKENS = 450
EDIT_SAMPLING = {"max_tokens": 128, "temperature": 0}
"""Sampled, so small a model does not keep to the code."""

_TOPICS = ("with", "context-managers", "try", "exceptions", "raise", "compound", "for", "while", "function", "class")
"""What the question is about comes first; the rest is of the same book."""


def prompt(count: Callable[[str], int], question: str = QUESTION, tokens: int = TOKENS) -> str:
    """Whole paragraphs up to `tokens` tokens as `count` counts them, then the question."""
    from pydoc_data.topics import topics

    chosen: list[str] = []
    used = count(question)
    for paragraph in "\n\n".join(topics[name] for name in _TOPICS).split("\n\n"):
        used += count(paragraph + "\n\n")
        if used > tokens:
            break
        chosen.append(paragraph)
    return "\n\n".join([*chosen, question])


def edit(count: Callable[[str], int], task: str = EDIT, tokens: int = EDIT_TOKENS) -> str:
    """The task, then the first lines of `json/decoder.py` of this Python, up to `tokens` tokens as `count` counts."""
    import inspect
    import json.decoder

    chosen: list[str] = []
    used = count(task)
    for line in inspect.getsource(json.decoder).splitlines():
        used += count(line + "\n")
        if used > tokens:
            break
        chosen.append(line)
    return "\n".join([task, "", *chosen])
