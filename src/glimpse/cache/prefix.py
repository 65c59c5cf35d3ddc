"""Prompts kept in the cache, so that requests that begin with them need not read them again."""

from __future__ import annotations

from dataclasses import dataclass

from glimpse.cache.pool import PagePool

TAIL = 16
"""Tokens of a prompt that are always read again, so that its last queries yield their importance."""


Key = tuple[tuple[int, ...], int]
"""What a kept prompt is dropped by: its tokens in whole pages, and its length."""


@dataclass(slots=True)
class _Kept:
    pages: list[int]
    holders: int = 0


class PrefixStore:
    """Whole pages of kept prompts. Only verified pages may be put in; they are never written again.

    `by_length`: keys are rotated by the length of their prompt (dynamic scaling), so only a prompt as long shares them.
    """

    def __init__(self, pool: PagePool, *, by_length: bool = False) -> None:
        self._pool, self._by_length = pool, by_length
        self._kept: dict[Key, _Kept] = {}

    def keep(self, tokens: list[int], pages: list[int]) -> Key:
        """Keeps the whole pages of `tokens` less the tail; returns the key for `drop`, which is owed as often.

        The tail's pages are of no use to the same prompt again: kept, they would have to be there twice.
        """
        whole = max(0, len(tokens) - TAIL) // self._pool.page_size
        key = (tuple(tokens[: whole * self._pool.page_size]), len(tokens))
        if key not in self._kept:
            self._kept[key] = _Kept(pages[:whole])
            self._pool.retain(pages[:whole])
        self._kept[key].holders += 1
        return key

    def drop(self, key: Key) -> None:
        """Gives up a kept prompt, the last time for good; rows that share its pages go on holding them."""
        kept = self._kept[key]
        kept.holders -= 1
        if not kept.holders:
            self._pool.release(self._kept.pop(key).pages)

    def find(self, prompt: list[int]) -> list[int]:
        """The pages of the longest kept beginning of `prompt`, less its last `TAIL` tokens."""
        best: list[int] = []
        for (tokens, length), kept in self._kept.items():
            if self._by_length and length != len(prompt):
                continue
            usable = min(_common(tokens, prompt), len(prompt) - TAIL) // self._pool.page_size
            if usable > len(best):
                best = kept.pages[:usable]
        return best


def _common(tokens: tuple[int, ...], prompt: list[int]) -> int:
    """Length of the common beginning."""
    if tokens == tuple(prompt[: len(tokens)]):
        return len(tokens)
    return next(index for index, (a, b) in enumerate(zip((*tokens, None), (*prompt, -1), strict=False)) if a != b)
