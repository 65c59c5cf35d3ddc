"""Prompts whose continuation is easy to draft."""

from __future__ import annotations

from collections.abc import Sequence

UNIT = 16
"""Tokens of the passage that is said over and over. Two of them are always within the 32 most recent positions, which
every draft reads: 7.8 of 8 drafts were accepted, of prose 5.1, of passages of 48 tokens said over and over or of 256
copied from further up 2.5 and 4.4 (SmolLM2-135M, 256 positions read, T=0.7, five rows of 64 tokens)."""
TIMES = 12
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
