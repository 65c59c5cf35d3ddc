"""Beginnings of prompts that are in the cache, so that requests that begin with them need not read them again.

A radix tree whose edges are whole pages of tokens (after SGLang's RadixAttention, arXiv 2312.07104, section 3). What it
remembers takes no memory from anyone: a page that no row holds and nobody pinned is free, and is forgotten when taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.pool import PagePool

TAIL = 16
"""Tokens of a prompt that are always read again, so that its last queries yield their importance."""


Key = tuple[bytes, int]
"""What a kept prompt is dropped by: its tokens in whole pages, and its length."""
Ids = Sequence[int] | NDArray[np.int64]
"""Token ids of a prompt. An array is taken as it is; a list of thousands costs more to convert than to look up."""
_Block = bytes
"""The tokens of a page, as int64: hashed and compared in a tenth of the time that a tuple of numbers takes."""


@dataclass(slots=True, eq=False)
class _Node:
    """One page, behind the pages of its parents."""

    page: int
    parent: _Node | None
    block: _Block
    children: dict[_Block, _Node] = field(default_factory=dict)
    published: bool = False
    """Whether any request may share it; else those only who share what is pinned."""
    pins: int = 0


@dataclass(slots=True)
class _Kept:
    path: list[_Node]
    holders: int = 0


class PrefixStore:
    """Whole pages of prompts, pinned or merely remembered. They hold verified keys and values, and are never written.

    `by_length`: keys are rotated by the length of their prompt (dynamic scaling), so only a prompt as long shares them.
    """

    def __init__(self, pool: PagePool, *, by_length: bool = False) -> None:
        self._pool, self._by_length = pool, by_length
        self._roots: dict[int, _Node] = {}
        self._nodes: dict[int, _Node] = {}
        self._kept: dict[Key, _Kept] = {}
        pool.overwriting = self._forget

    def publish(self, prompt: Ids, pages: list[int], verified: int) -> None:
        """Remembers the whole pages of a prompt less its tail, below `verified`, as those used last.

        They stay as free as they are. Where the tree has the same tokens in other pages, those stay.
        """
        path = self._grow(prompt, pages, min(verified // self._pool.page_size, self._whole(prompt)))
        for node, page in zip(path, pages, strict=False):
            node.published |= node.page == page
        self._pool.remember([node.page for node in path])

    def keep(self, tokens: Ids, pages: list[int]) -> Key:
        """Pins the whole pages of `tokens` less the tail; returns the key for `drop`, which is owed as often.

        The tail's pages are of no use to the same prompt again: kept, they would have to be there twice.
        """
        whole = self._whole(tokens)
        key = (b"".join(self._blocks(tokens, whole)), len(tokens))
        if key not in self._kept:
            path = self._grow(tokens, pages, whole)
            self._pool.retain([node.page for node in path])
            for node in path:
                node.pins += 1
            self._kept[key] = _Kept(path)
        self._kept[key].holders += 1
        return key

    def drop(self, key: Key) -> None:
        """Gives up a kept prompt, the last time for good; rows that share its pages go on holding them."""
        kept = self._kept[key]
        kept.holders -= 1
        if kept.holders:
            return
        del self._kept[key]
        for node in kept.path:
            node.pins -= 1
        self._pool.release([node.page for node in kept.path])
        self._forget([node.page for node in kept.path if not (node.pins or node.published)])

    def find(self, prompt: Ids, *, pinned: bool = False) -> list[int]:
        """The pages of the longest known beginning of `prompt`, less its last `TAIL` tokens; `pinned`: of those."""
        pages = []
        for node in self._walk(prompt, self._whole(prompt)):
            if not (node.pins or (node.published and not pinned)):
                break
            pages.append(node.page)
        return pages

    def may_share(self, prompt: Ids, other: Ids, tokens: int) -> bool:
        """Whether a prompt can share its first `tokens` tokens with another one, once that has been read."""
        if self._by_length and len(prompt) != len(other):
            return False
        within = tokens <= min(len(prompt), len(other)) - TAIL
        return within and np.array_equal(prompt[:tokens], other[:tokens])

    def _whole(self, prompt: Ids) -> int:
        """Pages that lie wholly before a prompt's tail."""
        return max(0, len(prompt) - TAIL) // self._pool.page_size

    def _root(self, prompt: Ids) -> _Node:
        return self._roots.setdefault(len(prompt) if self._by_length else 0, _Node(-1, None, b""))

    def _blocks(self, prompt: Ids, count: int) -> list[_Block]:
        raw = np.asarray(prompt[: count * self._pool.page_size], dtype=np.int64).tobytes()
        step = len(raw) // count if count else 1
        return [raw[begin : begin + step] for begin in range(0, len(raw), step)]

    def _walk(self, prompt: Ids, count: int) -> Iterator[_Node]:
        """The nodes of the first `count` pages of a prompt, as far as they are known."""
        node: _Node | None = self._root(prompt)
        for block in self._blocks(prompt, count):
            node = node.children.get(block) if node else None
            if node is None:
                return
            yield node

    def _grow(self, prompt: Ids, pages: list[int], count: int) -> list[_Node]:
        """The nodes of the first `count` pages of a prompt; those that are missing get its own `pages`."""
        node, path = self._root(prompt), []
        for block, page in zip(self._blocks(prompt, count), pages, strict=False):
            child = node.children.get(block)
            if child is None:
                child = self._nodes[page] = node.children[block] = _Node(page, node, block)
            node = child
            path.append(node)
        return path

    def _forget(self, pages: list[int]) -> None:
        """Drops pages with all that lies behind them, which nobody could reach any more."""
        for page in pages:
            gone = [self._nodes[page]] if page in self._nodes else []
            for node in gone:
                if node.parent is not None:
                    node.parent.children.pop(node.block, None)
            while gone:
                node = gone.pop()
                gone += node.children.values()
                del self._nodes[node.page]
                self._pool.blank([node.page])
