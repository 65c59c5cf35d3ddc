"""A drafter that needs no model and gives trees: right and wrong branches, of any shape, in any order."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import accumulate

import torch

from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import Draft
from glimpse.engine.engine import Engine
from glimpse.llm import LLM
from tests.doubles import Oracle, Texts

Tree = list[tuple[int, int]]
"""(token, parent) of each node."""


def tree_draft(*rows: Tree) -> Draft:
    """The rows' trees as a draft."""
    flat = [node for row in rows for node in row]
    return Draft(
        tokens=torch.tensor([token for token, _ in flat], dtype=torch.int64),
        parents=torch.tensor([parent for _, parent in flat], dtype=torch.int64),
        offsets=tuple(accumulate((len(row) for row in rows), initial=0)),
        confidence=torch.full((len(flat),), 0.8),
        source=torch.zeros(len(flat), dtype=torch.uint8),
    )


def with_trees(llm: LLM, drafting: object, pacing: object = None, **options: object) -> LLM:
    """A variant of `llm` with this drafter and rows for its trees; `draft_tokens` is their depth."""
    other = llm.variant(**{"drafter": "lookup", "pacer": "fixed"} | options)
    parts = other._engine.parts
    most = max(parts.rows.max_draft, drafting.budget)
    rows = Rows(parts.rows.capacity, parts.rows.width + most, most)
    parts = replace(parts, rows=rows, drafter=drafting, pacer=pacing or parts.pacer)
    other._engine = Engine(parts, other.options)
    return other


class Trees(Oracle):
    """Random trees around outputs known beforehand.

    `shape`: where nodes hang: "wide" (on the last committed token, three of four), "deep" (on the newest node, three of
    four) or "random". A node after right ones is right with probability `right`.
    """

    gives_tree = True

    def __init__(self, texts: Texts, shape: str = "random", nodes: int = 20, right: float = 0.6, seed: int = 0) -> None:
        super().__init__(texts)
        self.shape, self.budget, self._right, self._seed = shape, nodes, right, seed
        self._loose = {"wide": 0.25, "deep": 0.25, "random": 1.0}[shape]

    def plan(self, rows: RowView, room: list[int]) -> Draft:
        return tree_draft(*(self._tree(rows, slot, most) for slot, most in zip(rows.slots, room, strict=True)))

    def _tree(self, rows: RowView, slot: int, depth: int) -> Tree:
        history = rows.history(slot)
        draw = random.Random(f"{self._seed} {len(history)} {int(history[-1])}")
        right, tree, depths, good = self.proposal(rows, slot, depth), [], [], {-1}
        for _ in range(self.budget if depth > 0 else 0):
            parent = self._parent(draw, len(tree))
            below = depths[parent] if parent >= 0 else 0
            if below == depth:
                continue
            hit = parent in good and below < len(right) and draw.random() < self._right
            token = right[below] if hit else draw.randrange(3, 300)
            if (token, parent) in tree:
                continue
            if parent in good and below < len(right) and token == right[below]:
                good.add(len(tree))
            tree.append((token, parent))
            depths.append(below + 1)
        return tree

    def _parent(self, draw: random.Random, have: int) -> int:
        if draw.random() < self._loose:
            return draw.randrange(-1, have)
        return -1 if self.shape == "wide" else have - 1


class Spine(Oracle):
    """The right tokens as the last child of each node, after `width` wrong ones: all paths' nodes have to move."""

    gives_tree = True

    def __init__(self, texts: Texts, width: int = 2, importance: int = 0) -> None:
        super().__init__(texts)
        self.budget, self._width, self.importance = 64, width, importance

    def plan(self, rows: RowView, room: list[int]) -> Draft:
        return tree_draft(
            *(self._tree(self.proposal(rows, slot, most)) for slot, most in zip(rows.slots, room, strict=True))
        )

    def _tree(self, right: list[int]) -> Tree:
        tree, parent = [], -1
        for token in right:
            tree += [((token + 1 + turn) % 300, parent) for turn in range(self._width)]
            tree.append((token, parent))
            parent = len(tree) - 1
        return tree
