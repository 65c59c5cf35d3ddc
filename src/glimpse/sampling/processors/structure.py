"""Grammars: at every node only what the text, with the draft tokens on the way to it, may go on with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glimpse.sampling.grammar import Guide
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.processors.base import Admission, Processor

_BITS = 32


class Structure(Processor[Guide]):
    """Masks what the request's grammar forbids. Where drafts were read they are taken back before the next commit."""

    def state_of(self, request: Admission) -> Guide | None:
        """The grammar's beginning, where there is one."""
        grammar = request.params.grammar
        return None if grammar is None or request.grammars is None else request.grammars.guide(grammar)

    def commit(self, row: int, tokens: Sequence[int]) -> None:
        """Goes on by committed tokens."""
        if row in self.states:
            self.states[row].commit(tokens)

    def apply(self, scores: Tensor, nodes: Nodes, served: list[int]) -> None:
        """Forbids every token that is not legal."""
        vocab = scores.shape[1]
        words = -(-vocab // _BITS)
        masked, masks = [], []
        for node in served:
            mask = torch.zeros(1, words, dtype=torch.int32)
            draft = list(nodes.ancestors(node))[::-1]
            if self.states[nodes.rows[node]].legal_after(draft, mask):
                masked.append(node)
                masks.append(mask)
        if masked:
            legal = unpacked(torch.cat(masks).to(scores.device), vocab)
            index = torch.tensor(masked, device=scores.device)
            scores[index] = scores[index].masked_fill_(~legal, -torch.inf)


def unpacked(words: Tensor, vocab: int) -> Tensor:
    """[N, vocab] bool of bits [N, words] int32, the lowest bit of a word first."""
    bits = torch.arange(_BITS, dtype=torch.int32, device=words.device)
    return ((words.unsqueeze(-1) >> bits) & 1).flatten(1)[:, :vocab].bool()
