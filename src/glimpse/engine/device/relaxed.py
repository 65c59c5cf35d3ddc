"""Lossy rules that the device knows: those that look at the target's law alone, on chains."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.acceptance import Acceptance
from glimpse.acceptance.relaxed.walks import TopK, Typical, WalkRule
from glimpse.attention.triton.picking import RowSettings, Sample
from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.relaxing import Passing, Rule, relax
from glimpse.attention.triton.rows import Fed

_KNOWN: dict[type, Passing] = {Typical: Passing.TYPICAL, TopK: Passing.TOP_K}


def relaxed_of(acceptance: Acceptance) -> Rule | None:
    """The rule, where it is one of those."""
    passing = _KNOWN.get(type(acceptance))  # what a package derives from them may let other drafts pass
    return Rule(passing, acceptance.strength) if passing is not None and isinstance(acceptance, WalkRule) else None


class Relaxing:
    """A rule at work behind the picks of steps of one shape; its buffers must outlive graphs captured of it."""

    def __init__(self, rule: Rule, sample: Sample, settings: RowSettings) -> None:
        """`settings`: those that `sample` picks by."""
        self._rule, self._sample, self._settings = rule, sample, settings
        self._loose = torch.zeros(sample.rows, dtype=torch.int32, device=sample.peaks.device)

    def __call__(self, logits: Tensor, fed: Fed, ragged: Ragged | None = None) -> Tensor:
        """Lets drafts pass in the place of what was just picked of `logits`; [N] int32, until it is called again: where
        it did."""
        relax(self._sample, logits, self._settings, fed, self._rule, self._loose, ragged=ragged)
        return self._loose
