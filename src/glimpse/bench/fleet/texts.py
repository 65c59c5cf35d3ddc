"""Prompts whose continuation is easy to draft."""

from __future__ import annotations

from collections.abc import Sequence

UNIT = 48
"""Tokens of the passage that is said over and over."""
TIMES = 6
"""How often, where the context has room for it: up to a half of it."""


def easy(prompt: Sequence[int]) -> list[int]:
    """A prompt as long, which begins as this one and ends with its last `UNIT` tokens `TIMES` times."""
    times = max(1, min(TIMES, len(prompt) // (2 * UNIT)))
    return [*prompt[: len(prompt) - UNIT * times], *list(prompt[-UNIT:]) * times]


def is_easy(place: int) -> bool:
    """Whether the prompt at a place of a mixed batch is the easy kind: every other one."""
    return place % 2 == 0


def half_easy(prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Every other prompt made easy."""
    return [easy(prompt) if is_easy(place) else list(prompt) for place, prompt in enumerate(prompts)]
