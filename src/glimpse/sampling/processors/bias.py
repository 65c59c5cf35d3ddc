"""logit_bias: numbers added to the scores of single tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.sampling.nodes import Nodes
from glimpse.sampling.processors.base import Admission, Processor, pairs


class Bias(Processor[tuple[Tensor, Tensor]]):
    """Adds each request's biases; its state is the ids [B] int64 and values [B] float32."""

    def state_of(self, request: Admission) -> tuple[Tensor, Tensor] | None:
        """Ids and values where any are given."""
        bias = {token: value for token, value in request.params.logit_bias.items() if token < request.vocab}
        if not bias:
            return None
        return torch.tensor(list(bias), device=request.device), torch.tensor(list(bias.values()), device=request.device)

    def apply(self, scores: Tensor, nodes: Nodes, served: list[int]) -> None:
        """Adds the biases."""
        states = [self.states[nodes.rows[node]] for node in served]
        index = pairs(served, [ids for ids, _ in states])
        scores.index_put_(index, torch.cat([values for _, values in states]), accumulate=True)
