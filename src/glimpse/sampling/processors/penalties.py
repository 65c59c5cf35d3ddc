"""Repetition, frequency and presence penalties, each from the prefix that the node would have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.sampling.blocks import blocks
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.processors.base import Admission, Processor


@dataclass(frozen=True, slots=True)
class Counts:
    """What a row's text holds so far, and how it is penalised."""

    prompted: Tensor
    """[V] bool: in the prompt."""
    output: Tensor
    """[V] float32: times in the committed output."""
    strengths: tuple[float, float, float]
    """Repetition, frequency, presence."""


class Penalties(Processor[Counts]):
    """Repetition over prompt and output (Keskar et al., "CTRL", 2019, as transformers applies it: positive scores are
    divided, negative ones multiplied), then frequency and presence over the output alone (OpenAI's, as in vLLM).
    """

    def state_of(self, request: Admission) -> Counts | None:
        """Counts of the prompt where a penalty is on."""
        params = request.params
        strengths = (params.repetition_penalty, params.frequency_penalty, params.presence_penalty)
        if strengths == (1.0, 0.0, 0.0):
            return None
        prompted = torch.zeros(request.vocab, dtype=torch.bool, device=request.device)
        prompted[torch.tensor(_inside(request.prompt, request.vocab), dtype=torch.int64)] = True
        return Counts(prompted, torch.zeros(request.vocab, device=request.device), strengths)

    def commit(self, row: int, tokens: Sequence[int]) -> None:
        """Counts committed tokens."""
        if row in self.states:
            output = self.states[row].output
            ids = torch.tensor(_inside(tokens, output.numel()), dtype=torch.int64, device=output.device)
            output.index_add_(0, ids, torch.ones(ids.numel(), device=output.device))

    def apply(self, scores: Tensor, nodes: Nodes, served: list[int]) -> None:
        """Penalises the served rows."""
        for part in blocks(len(served), scores.shape[1], scores.device):
            self._apply(scores, nodes, served[part])

    def _apply(self, scores: Tensor, nodes: Nodes, served: list[int]) -> None:
        states = [self.states[nodes.rows[node]] for node in served]
        output = torch.stack([state.output for state in states])
        self._count_ancestors(output, nodes, served)
        prompted = torch.stack([state.prompted for state in states])
        repetition, frequency, presence = (
            torch.tensor(column, device=scores.device).unsqueeze(1)
            for column in zip(*(state.strengths for state in states), strict=True)
        )
        index = torch.tensor(served, device=scores.device)
        old, written = scores[index], output > 0
        repeated = torch.where(old > 0, old / repetition, old * repetition)
        new = torch.where(written | prompted, repeated, old)
        scores[index] = new.sub_(output.mul_(frequency)).sub_(written * presence)

    @staticmethod
    def _count_ancestors(output: Tensor, nodes: Nodes, served: list[int]) -> None:
        """Adds, to each node's own counts [M, V], the draft tokens on the way to it."""
        found = [(i, token) for i, node in enumerate(served) for token in nodes.ancestors(node)]
        inside = [(i, token) for i, token in found if 0 <= token < output.shape[1]]
        if inside:
            rows, tokens = torch.tensor(inside, device=output.device).unbind(1)
            output.index_put_((rows, tokens), torch.ones(len(inside), device=output.device), accumulate=True)


def _inside(tokens: Sequence[int], vocab: int) -> list[int]:
    """Tokens that have a score: a prompt may hold ids past those that can be written."""
    return [token for token in tokens if 0 <= token < vocab]
