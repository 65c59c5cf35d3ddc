"""The target's picks for all rows of a step, by every row's own settings."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.picking import Picks, RowSettings, Sample
from glimpse.engine.device.state import DeviceRows
from glimpse.sampling.noise import Role


class Choose:
    """Picks with the target's noise (coupled acceptance) for B rows of `queries` logits each.

    The settings are read when it is made, and by `refresh`.
    """

    def __init__(self, rows: DeviceRows, queries: int, vocab: int) -> None:
        own, count, device = rows.settings, rows.size * queries, rows.tokens.device
        self._rows, self._queries = rows, queries
        self.settings = RowSettings(*(_like(values, count) for values in _each(own)))
        """Of each token's row."""
        self._seeds = _like(rows.seeds, count)
        self.sample = Sample(count, vocab, device, role=Role.TARGET)
        self.refresh()

    def refresh(self) -> None:
        """Takes over the rows' settings and seeds; graphs that were captured stay valid."""
        rows = self._rows
        pairs = zip((*_each(self.settings), self._seeds), (*_each(rows.settings), rows.seeds), strict=True)
        for held, values in pairs:
            held.view(-1, self._queries).copy_(values[:, None])

    def __call__(self, logits: Tensor, positions: Tensor) -> Picks:
        """Tokens, their probabilities and entropies [B * queries], picked to follow `positions` [B * queries] int64."""
        return self.sample(logits, self.settings, self._seeds, positions, ahead=1)


def settings_of(temperature: float, top_k: int, top_p: float, min_p: float) -> tuple[float, int, float, float]:
    """One row's numbers for `RowSettings`; greedy (temperature 0) is top_k 1 with all else off."""
    if temperature == 0:
        return 1.0, 1, torch.inf, -torch.inf
    log_min_p = float(torch.tensor(min_p, dtype=torch.float64).log())
    return temperature, top_k or 1 << 40, top_p if top_p < 1 else torch.inf, log_min_p


def _each(settings: RowSettings) -> tuple[Tensor, ...]:
    return settings.temperature, settings.top_k, settings.top_p, settings.log_min_p


def _like(values: Tensor, count: int) -> Tensor:
    return torch.empty(count, dtype=values.dtype, device=values.device)
