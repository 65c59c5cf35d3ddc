"""What every logits processor is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from glimpse.sampling.grammar import Grammars
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.params import ResolvedParams

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Admission:
    """What a processor may know of a request when it is admitted."""

    params: ResolvedParams
    prompt: Sequence[int]
    eos: Sequence[int]
    """Every end-of-text token of the checkpoint."""
    vocab: int
    device: torch.device
    grammars: Grammars | None = None
    """Compiles grammars, where the checkpoint's tokenizer is known."""


class Processor(ABC, Generic[State]):
    """Changes scores in place. It keeps a state for the rows that use it, and none for the others."""

    def __init__(self) -> None:
        self.states: dict[int, State] = {}

    def admit(self, row: int, request: Admission) -> None:
        """Keeps a state for `row` if its request uses this processor."""
        state = self.state_of(request)
        if state is not None:
            self.states[row] = state

    def retire(self, row: int) -> None:
        """Frees what is kept for `row`."""
        self.states.pop(row, None)

    def commit(self, row: int, tokens: Sequence[int]) -> None:
        """Notes tokens that became part of the row's output."""

    def served(self, nodes: Nodes) -> list[int]:
        """The nodes whose row uses this processor."""
        return [node for node, row in enumerate(nodes.rows) if row in self.states] if self.states else []

    @abstractmethod
    def state_of(self, request: Admission) -> State | None:
        """The state of a new request, or None when it does not use this processor."""

    @abstractmethod
    def apply(self, scores: Tensor, nodes: Nodes, served: list[int]) -> None:
        """Changes the `served` rows of scores [N, V] in place."""


def pairs(served: list[int], ids: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Flat indices (node, token) of the tokens ids[i] at node served[i]."""
    lengths = torch.tensor([len(tokens) for tokens in ids])
    nodes = torch.repeat_interleave(torch.tensor(served), lengths)
    flat = torch.cat(ids)
    return nodes.to(flat.device), flat
