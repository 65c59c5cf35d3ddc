"""min_p, top_k and top_p: which tokens of a law stay, and their law among themselves.

For each row, of scores s (processed logits) and temperature T:

1. min_p keeps the tokens with p >= min_p * max p, where p = softmax(s / T) (Nguyen et al., "Turning up the heat: min-p
   sampling", 2024).
2. top_k keeps, of these, the k most probable (Fan et al., "Hierarchical neural story generation", 2018).
3. top_p keeps, of these and with their probabilities renormalised, the smallest set of most probable tokens whose mass
   reaches top_p, at least one (Holtzman et al., "The curious case of neural text degeneration", 2020).

Equal scores rank by token id, lowest first, so each set has exactly one right value. All three keep a prefix of the
ranking: only as much of it is made as is needed, and what was kept does not depend on how much was.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_FIRST_WIDTH = 128
"""Ranked tokens at the first try where no top_k says how many are needed."""
_MARGIN = 14
"""Ranked tokens past top_k, so that a tie at its boundary seldom needs a second try."""
_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Cuts:
    """The settings of N rows, float64 but for `top_k`, with infinities where an option is off."""

    temperature: Tensor
    """[N], above 0."""
    top_k: Tensor
    """[N] int64; a very large number where off."""
    top_p: Tensor
    """[N]; infinity where off."""
    log_min_p: Tensor
    """[N]; -infinity where off."""

    def select(self, rows: Tensor) -> Cuts:
        """The settings of some rows."""
        return Cuts(self.temperature[rows], self.top_k[rows], self.top_p[rows], self.log_min_p[rows])


def first_width(top_k: int) -> int:
    """How many ranked tokens to try first for a row's `top_k` (0: off)."""
    return top_k + _MARGIN if top_k else _FIRST_WIDTH


def ranking(scores: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The `width` highest of scores [N, V] and their ids, both [N, width], highest first, equal ones by id.

    Where the last value is tied with values left out, which of these got in is arbitrary.
    """
    if width >= scores.shape[1]:
        values, ids = torch.sort(scores, dim=1, descending=True, stable=True)
        return values, ids
    ids = torch.topk(scores, width, dim=1).indices.sort(dim=1).values
    values, order = torch.sort(scores.gather(1, ids), dim=1, descending=True, stable=True)
    return values, ids.gather(1, order)


def truncate(scores: Tensor, cuts: Cuts, width: int) -> tuple[Tensor, Tensor]:
    """The candidates of each row of scores [N, V] and their normalised log-probabilities.

    Returns ids [N, C] int64 and logp [N, C] float32, most probable first, padded with -inf. `width` is the number of
    ranked tokens to try first: it changes the time taken, never the result.
    """
    peak = scores.amax(dim=1, keepdim=True)
    return _truncate(scores, peak, _mass(scores, peak, cuts), cuts, width)


def _truncate(scores: Tensor, peak: Tensor, mass: Tensor, cuts: Cuts, width: int) -> tuple[Tensor, Tensor]:
    values, ids = ranking(scores, width)
    keep, logp = _kept(values, peak, mass, cuts)
    longest = int(keep.sum(dim=1).max())
    ids, trimmed = ids[:, :longest], logp[:, :longest]
    if width >= scores.shape[1]:
        return ids, trimmed
    open_rows = (keep & (values == values[:, -1:])).any(dim=1).nonzero().squeeze(1)
    if open_rows.numel() == 0:
        return ids, trimmed
    more = min(width * _GROWTH, scores.shape[1])
    wider = _truncate(scores[open_rows], peak[open_rows], mass[open_rows], cuts.select(open_rows), more)
    return _overwritten(ids, trimmed, open_rows, *wider)


def _overwritten(ids: Tensor, logp: Tensor, rows: Tensor, new_ids: Tensor, new_logp: Tensor) -> tuple[Tensor, Tensor]:
    """`ids` and `logp` with some rows replaced by wider or narrower ones."""
    width = max(ids.shape[1], new_ids.shape[1])
    pad = torch.nn.functional.pad
    ids, logp = pad(ids, (0, width - ids.shape[1])), pad(logp, (0, width - logp.shape[1]), value=-torch.inf)
    ids[rows] = pad(new_ids, (0, width - new_ids.shape[1]))
    logp[rows] = pad(new_logp, (0, width - new_logp.shape[1]), value=-torch.inf)
    return ids, logp


def _mass(scores: Tensor, peak: Tensor, cuts: Cuts) -> Tensor:
    """[N, 1] float64: what the tokens that min_p keeps weigh, the most probable weighing 1; needed by top_p alone."""
    wanted = torch.isfinite(cuts.top_p) & (cuts.top_k >= scores.shape[1])
    mass = torch.ones_like(peak, dtype=torch.float64)
    rows = wanted.nonzero().squeeze(1)
    if rows.numel():
        exponents = (scores[rows] - peak[rows]) / cuts.temperature[rows].to(scores.dtype).unsqueeze(1)
        weights = exponents.exp()
        limits = cuts.log_min_p[rows].unsqueeze(1)
        if bool((limits > -torch.inf).any()):
            weights.masked_fill_(exponents < limits, 0.0)
        mass[rows] = weights.sum(dim=1, keepdim=True, dtype=torch.float64)
    return mass


def _kept(values: Tensor, peak: Tensor, mass: Tensor, cuts: Cuts) -> tuple[Tensor, Tensor]:
    """Which of the ranked values [N, W] stay (a prefix of each row), and their log-probabilities among themselves.

    In float64, so that neither the number of ranked tokens nor the other rows can move a boundary by rounding.
    """
    exponents = (values.double() - peak) / cuts.temperature.unsqueeze(1)
    rank = torch.arange(values.shape[1], device=values.device)
    keep = (exponents >= cuts.log_min_p.unsqueeze(1)) & (rank < cuts.top_k.unsqueeze(1)) & (values > -torch.inf)
    weights = exponents.exp() * keep
    whole = torch.where(cuts.top_k.unsqueeze(1) <= rank.numel(), weights.sum(dim=1, keepdim=True), mass)
    before = weights.cumsum(dim=1) - weights
    keep &= before < cuts.top_p.unsqueeze(1) * whole
    keep[:, 0] = True
    kept = exponents.masked_fill(~keep, -torch.inf)
    return keep, torch.log_softmax(kept, dim=1).to(torch.float32)
