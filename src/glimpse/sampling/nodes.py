"""Which row each of N rows of logits belongs to, and the prefix it would have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Nodes:
    """N nodes. The prefix of a node is its row's committed text followed by the draft tokens on the way to it.

    The draft tokens are one trie for all rows: entry e holds `trie_tokens[e]` after entry `trie_parents[e]`, or after
    the committed text where that is -1. It is what a draft is already made of, so building nodes costs next to nothing,
    and the ancestors of a node are only walked by the processors that need them.
    """

    rows: tuple[int, ...]
    """The row slot of each node."""
    row: Tensor
    """[N] int64: the same on the device."""
    position: Tensor
    """[N] int64: the index of the token to be picked at the node; the prompt's first token has 0."""
    generated: tuple[int, ...]
    """Output tokens before each node: committed ones and draft tokens on the way."""
    tips: tuple[int, ...]
    """The trie entry that each node follows; -1: the committed text itself."""
    trie_tokens: Sequence[int] = ()
    trie_parents: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def ancestors(self, node: int) -> Iterator[int]:
        """The draft tokens of the node's prefix, from the last one backwards."""
        entry = self.tips[node]
        while entry >= 0:
            yield self.trie_tokens[entry]
            entry = self.trie_parents[entry]

    @classmethod
    def plain(
        cls,
        rows: Sequence[int],
        lengths: Sequence[int],
        generated: Sequence[int],
        *,
        device: torch.device | str = "cpu",
    ) -> Nodes:
        """One node a row, right after its committed text of `lengths` tokens, `generated` of them output."""
        return cls.drafting(rows, lengths, generated, [()] * len(rows), device=device)

    @classmethod
    def drafting(
        cls,
        rows: Sequence[int],
        lengths: Sequence[int],
        generated: Sequence[int],
        drafted: Sequence[Sequence[int]],
        *,
        device: torch.device | str = "cpu",
    ) -> Nodes:
        """One node a row, after its committed text and all of the chain `drafted` since: where a draft goes on."""
        tokens = [token for chain in drafted for token in chain]
        parents, tips = _chains([len(chain) for chain in drafted])
        ends = [length + len(chain) for length, chain in zip(lengths, drafted, strict=True)]
        outputs = [count + len(chain) for count, chain in zip(generated, drafted, strict=True)]
        return _make(rows, ends, outputs, tips, tokens, parents, device)

    @classmethod
    def verifying(
        cls,
        rows: Sequence[int],
        lengths: Sequence[int],
        generated: Sequence[int],
        tokens: Sequence[int],
        parents: Sequence[int],
        offsets: Sequence[int],
        *,
        device: torch.device | str = "cpu",
    ) -> Nodes:
        """The target laws of a draft (see `Draft`): for each row, in turn, one after its committed text and then one
        after each of its draft nodes. `parents` are counted within the row, as in `Draft`."""
        trie, node_rows, positions, outputs, tips = [], [], [], [], []
        for index, row in enumerate(rows):
            start, end = offsets[index], offsets[index + 1]
            depths = [0]
            for parent in parents[start:end]:
                depths.append(depths[parent + 1] + 1)
                trie.append(parent + start if parent >= 0 else -1)
            node_rows += [row] * len(depths)
            positions += [lengths[index] + depth for depth in depths]
            outputs += [generated[index] + depth for depth in depths]
            tips += [-1, *range(start, end)]
        return _make(node_rows, positions, outputs, tips, list(tokens), trie, device)


def _chains(lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    """The parents of chains laid end to end, and the last entry of each (-1 for an empty one)."""
    parents: list[int] = []
    tips: list[int] = []
    for length in lengths:
        start = len(parents)
        parents += [-1, *range(start, start + length - 1)] if length else []
        tips.append(len(parents) - 1 if length else -1)
    return parents, tips


def _make(
    rows: Sequence[int],
    positions: Sequence[int],
    generated: Sequence[int],
    tips: Sequence[int],
    tokens: Sequence[int],
    parents: Sequence[int],
    device: torch.device | str,
) -> Nodes:
    row = torch.tensor(rows, dtype=torch.int64, device=device)
    position = torch.tensor(positions, dtype=torch.int64, device=device)
    return Nodes(tuple(rows), row, position, tuple(generated), tuple(tips), tokens, parents)
