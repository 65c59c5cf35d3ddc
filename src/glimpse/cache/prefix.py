"""Prompts kept in the cache, so that requests that begin with them need not read them again."""

from __future__ import annotations

from glimpse.cache.pool import PagePool

TAIL = 16
"""Tokens of a prompt that are always read again, so that its last queries yield their importance."""


class PrefixStore:
    """Whole pages of kept prompts. Only verified pages may be put in; they are never written again."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._kept: dict[tuple[int, ...], list[int]] = {}

    @property
    def pages(self) -> int:
        """Pages held for kept prompts."""
        return sum(len(pages) for pages in self._kept.values())

    def keep(self, tokens: list[int], pages: list[int]) -> tuple[int, ...]:
        """Keeps the pages that lie wholly within `tokens`; returns the key for `drop`."""
        key = tuple(tokens[: len(tokens) // self._pool.page_size * self._pool.page_size])
        if key not in self._kept:
            held = pages[: len(key) // self._pool.page_size]
            self._pool.retain(held)
            self._kept[key] = held
        return key

    def drop(self, key: tuple[int, ...]) -> None:
        """Gives up a kept prompt; rows that share its pages go on holding them."""
        self._pool.release(self._kept.pop(key, []))

    def find(self, prompt: list[int]) -> list[int]:
        """The pages of the longest kept beginning of `prompt`, less its last `TAIL` tokens."""
        best: list[int] = []
        for key, pages in self._kept.items():
            usable = min(_common(key, prompt), len(prompt) - TAIL) // self._pool.page_size
            if usable > len(best):
                best = pages[:usable]
        return best


def _common(key: tuple[int, ...], prompt: list[int]) -> int:
    """Length of the common beginning."""
    if key == tuple(prompt[: len(key)]):
        return len(key)
    return next(index for index, (a, b) in enumerate(zip((*key, None), (*prompt, -1), strict=False)) if a != b)
