"""The block contract: what a head is told of the text, and what it gives.

A head looks at what the target made of the text, its hidden states, and says for each of the next `size` places what
may stand there: one row of logits a place, all at once. `BlockDrafter` does the rest: tokens, their confidences, when
and how much of a block is offered. So a head of another kind (DFlash's, say) is one class with three members.

What pacers see of a block, through `Draft` and `Rows`: its tokens, a chain; for each the confidence, the probability
of the token by the head's own law at the request's settings; and its cost (`BlockDrafter.cost`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from glimpse.cache.rows import RowView
from glimpse.model.late import LatePath


@dataclass(frozen=True, slots=True)
class Seen:
    """What a forward made of one row, cut to what was kept. Of steps that a pacer calls plain it is not told."""

    slot: int
    bonus: int
    """The last committed token, which no forward has read yet: a block goes on after it."""
    tokens: Tensor
    """[k] int64: what was read, the last ones of a prompt or the tokens of a verification, all of them kept."""
    hidden: Tensor
    """[k, hidden] on the decoder's device: their final hidden states."""
    masks: Tensor | None
    """[size, hidden]: those of the mask tokens behind the last of them; None where the head has no path for them."""


class BlockHead(Protocol):
    """Proposes blocks. Greedy or sampled text stays exact whatever it says."""

    size: int
    """Tokens of a block."""
    path: LatePath | None
    """The way of mask tokens through the target, which then ride in its forwards; None: the head needs none."""

    def propose(self, seen: Sequence[Seen]) -> Tensor:
        """[rows, size, vocab] logits of the tokens that follow each row's `bonus`."""

    def retire(self, slot: int) -> None:
        """Frees what it keeps for a row."""


@dataclass(frozen=True, slots=True)
class BlockCost:
    """What one more block costs."""

    seconds: float
    """What the head itself takes, beside the target's forwards: the mean of the last ones; 0 before the first."""
    mask_tokens: int
    """Mask tokens of a group. Those that ride in a step are `draft_tokens` of its `StepLoad`, so `StepCosts` knows
    what one adds."""


Draw = Callable[[RowView, Tensor], tuple[Tensor, Tensor]]
"""draw(rows, logits [rows, size, vocab]) -> (tokens [rows, size], their probabilities), by each request's settings."""
