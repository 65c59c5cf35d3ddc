"""The target's picks for all rows of a step, by every row's own settings."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.picking import Picks, RowSettings, Sample
from glimpse.engine.device.state import DeviceRows
from glimpse.sampling.noise import Role


class Choose:
    """Picks with the target's noise (coupled acceptance) for B rows of `queries` logits each.

    The settings are read when it is made: make it after the rows are filled.
    """

    def __init__(self, rows: DeviceRows, queries: int, vocab: int) -> None:
        def spread(values: Tensor) -> Tensor:
            return values.repeat_interleave(queries)

        own = rows.settings
        self._settings = RowSettings(
            spread(own.temperature), spread(own.top_k), spread(own.top_p), spread(own.log_min_p)
        )
        self._seeds = spread(rows.seeds)
        self._sample = Sample(rows.size * queries, vocab, rows.tokens.device, role=Role.TARGET)

    def __call__(self, logits: Tensor, positions: Tensor) -> Picks:
        """Tokens, their probabilities and the entropies [B * queries] of what follows `positions` [B * queries] int64."""
        return self._sample(logits, self._settings, self._seeds, positions, ahead=1)


def settings_of(temperature: float, top_k: int, top_p: float, min_p: float) -> tuple[float, int, float, float]:
    """One row's numbers for `RowSettings`; greedy (temperature 0) is top_k 1 with all else off."""
    if temperature == 0:
        return 1.0, 1, torch.inf, -torch.inf
    log_min_p = float(torch.tensor(min_p, dtype=torch.float64).log())
    return temperature, top_k or 1 << 40, top_p if top_p < 1 else torch.inf, log_min_p
