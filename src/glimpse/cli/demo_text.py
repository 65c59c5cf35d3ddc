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
