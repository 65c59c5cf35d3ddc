"""What the bench asks of a cell: a batch whose prompts are read once and that can be put back to their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from glimpse.bench.clock import Clock
from glimpse.model.spec import DecoderSpec
from glimpse.sampling.params import SamplingParams

SAMPLED: dict[str, Any] = {"top_k": 50, "top_p": 0.9}
"""Beside every temperature above 0: the headline is 0.7 with these."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one verification brought."""

    drafted: list[int]
    """[rows] draft tokens verified."""
    committed: list[int]
    """[rows] tokens, the target's own one counted; 0 for an idle row."""
    confidence: list[list[float]]
    """[rows][drafted]: each draft token's probability under its draft law; empty where it has none."""


class Cell(Protocol):
    """Rows that decode in step. Steps may only be enqueued: whoever times them waits."""

    spec: DecoderSpec
    dtype: torch.dtype
    context: int
    rows: int
    clock: Clock
    prefill_s: float
    how: str
    """What runs it, in words."""
    reads_cache: bool
    """Whether drafts take forwards over recall sets."""

    def resample(self, temperature: float, turn: int) -> None:
        """From the next rewinding on, row r samples at `temperature` with seed `turn * rows + r`."""

    def rewind(self, drafts: int) -> None:
        """Back to the end of the prompts, ready for drafts of `drafts` tokens (0: plain steps)."""

    def plain(self) -> None:
        """One plain step of every row."""

    def draft(self, count: int) -> None:
        """Drafts `count` tokens for every row."""

    def verify(self, count: int, *, learn: bool = True) -> None:
        """Verifies drafts of `count` tokens; with `learn`, importance is gathered for the next recall sets."""

    def select(self) -> None:
        """Chooses every row's recall set once."""

    def note(self) -> None:
        """Keeps what the last verification brought, for `noted`."""

    def noted(self) -> list[Round]:
        """What was kept since the last rewinding, oldest first."""

    def written(self) -> list[list[int]]:
        """The tokens of each row since the last rewinding."""

    def close(self) -> None:
        """Gives the memory back."""


def params_of(temperature: float, seed: int, tokens: int | None = None) -> SamplingParams:
    """Settings of one row. A temperature of 0 is greedy."""
    more = SAMPLED if temperature else {}
    return SamplingParams(temperature=temperature, seed=seed, max_tokens=tokens, ignore_eos=True, **more)


def law_of(temperature: float) -> str:
    """A sampling setting's name: "greedy" or "T=0.7"."""
    return f"T={temperature:g}" if temperature else "greedy"


def one_round(cell: Cell, count: int) -> None:
    """Draft, verify, keep the outcome."""
    cell.draft(count)
    cell.verify(count)
    cell.note()


def distinct_4grams(texts: Sequence[Sequence[int]]) -> float:
    """Different 4-grams over all 4-grams, each row by itself: greedy text of a small model repeats itself."""
    grams = [[tuple(text[start : start + 4]) for start in range(len(text) - 3)] for text in texts]
    every = sum(map(len, grams))
    return sum(len(set(own)) for own in grams) / every if every else 1.0
