"""Slow-Fast Inference on the device: where each row is between two slow steps, and the choice of its sets."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.fusion import Fusion
from glimpse.attention.triton.select import Selection
from glimpse.attention.triton.sizes import parted
from glimpse.attention.triton.trusting import UNREAD
from glimpse.cache.recall import RecallBudget
from glimpse.cache.selector import Selector
from glimpse.engine.device.state import DeviceRecall, DeviceRows
from glimpse.pacing.boundary import BoundaryPacer


class TrustState:
    """What `TrustWork`, or `BoundaryWork`, keeps of B rows beside `DeviceRows` and `DeviceRecall`, whose scores are
    float32."""

    def __init__(
        self, rows: DeviceRows, recall: DeviceRecall, page_size: int, budget: RecallBudget, selector: Selector,
        pacer: BoundaryPacer, vocab: int, *, verifies: bool,
    ) -> None:  # fmt: skip
        """Token ids are below `vocab`. The `selector` does not look at keys (`key_norm` 0). `verifies`: drafts stay
        drafts until the boundary (lossless); else they are output as they are drawn."""
        device = rows.tokens.device
        self._rows, self._recall, self._budget, self._selector = rows, recall, budget, selector
        self._select = Selection(page_size, budget.sinks, budget.recent)
        self._fuse = Fusion(
            budget.sinks, budget.recent, selector.most_prior, selector.suppression, selector.exclusivity,
            selector.age, selector.age_power, selector.end, selector.reach,
        )  # fmt: skip
        self.verifies = verifies
        self.most = min(pacer.most, rows.most) if verifies else pacer.most
        """Fast steps between two slow ones, at most."""
        self.since, self.learned = parted(2, rows.size, torch.int32, device, torch.zeros)
        """[B] int32: fast steps since the last slow one. [B] int32: positions that a slow step has just weighed."""
        self.ends = torch.zeros(vocab, dtype=torch.uint8, device=device)
        """[vocab] uint8: 1 where a sentence ends with this id."""
        self.ends[sorted(token for token in pacer.ends if token < vocab)] = 1

    def fuse(self, weights: Tensor) -> Tensor:
        """[..., kv_heads, length]: the power mean of the weights [..., kv_heads, queries, length] of a prompt's last
        queries."""
        inside = slice(self._budget.sinks, max(self._budget.sinks, weights.shape[-1] - self._budget.recent))
        found = torch.zeros_like(weights[..., 0, :])
        found[..., inside] = self._selector.fused(weights[..., inside].float())
        return found

    def begin(self, row: int, length: int) -> None:
        """Chooses the first set of a row of `length` tokens, whose prompt left its weights in `recall.fresh`."""
        self.learned.zero_()
        self.learned[row], self.since[row], self._recall.base[row] = length, UNREAD.value, length
        self.choose(self._rows.size)
        self.learned.zero_()

    def move(self, source: int, target: int) -> None:
        """Row `target` is where row `source` was."""
        self.since[target] = self.since[source]

    def choose(self, size: int) -> None:
        """Device code: new sets for those of the first `size` rows that have learned, of the weights in `fresh`.

        Kernels take statistics of all rows or none: within a layer, the rows lie side by side.
        """
        recall, lengths = self._recall, self.learned
        lengths[size:].zero_()
        budgets, counts = self._budget.positions_of(lengths), torch.empty_like(lengths)
        self._fuse(recall.fresh, lengths, budgets, recall.scores)
        self._select(recall.scores, lengths, lengths, budgets, self._rows.table, recall.slots, counts)
        recall.count.copy_(torch.where(lengths > 0, counts, recall.count))
