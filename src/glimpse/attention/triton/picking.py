"""Picking tokens on the device: settings, buffers fixed when a graph is captured, and the two launches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glimpse.attention.triton.sample import pick_kernel
from glimpse.attention.triton.sizes import padded
from glimpse.attention.triton.vocabulary import SUMMARY, summary_kernel


@dataclass(frozen=True, slots=True)
class RowSettings:
    """Sampling settings of N rows, as `glimpse.sampling.truncation.Cuts` holds them. Greedy: top_k 1, all else off."""

    temperature: Tensor
    """[N] float64 or float32, above 0."""
    top_k: Tensor
    """[N] int64; the vocabulary's size or more where off."""
    top_p: Tensor
    """[N] float64 or float32; 1 or more where off."""
    log_min_p: Tensor
    """[N] float64 or float32; -inf where off."""

    @classmethod
    def greedy(cls, rows: int, device: torch.device | str) -> RowSettings:
        """Of rows that take the likeliest token."""
        return cls(
            temperature=torch.ones(rows, dtype=torch.float64, device=device),
            top_k=torch.ones(rows, dtype=torch.int64, device=device),
            top_p=torch.full((rows,), torch.inf, dtype=torch.float64, device=device),
            log_min_p=torch.full((rows,), -torch.inf, dtype=torch.float64, device=device),
        )


@dataclass(frozen=True, slots=True)
class Picks:
    """What was picked, in buffers that the next call writes over."""

    tokens: Tensor
    """[N] int64."""
    probabilities: Tensor
    """[N] float32: of the token, under its truncated law."""
    entropies: Tensor
    """[N] float32, nats: of softmax(logits) at temperature 1, before any truncation."""


@dataclass(frozen=True, slots=True)
class SampleConfig:
    """How the launches are cut up. Changes the time, never the token."""

    group: int = 256
    """Tokens of which only the peak is looked at to bound the candidates."""
    groups: int = 16
    """Groups a program of the first launch handles."""
    tile: int = 4096
    """Logits that a program of the second launch looks at at a time."""
    wide: int = 4096
    """The same where the law reaches far."""
    few: int = 128
    room: int = 1024
    """Candidates ranked at a time: the lesser number where they fit."""
    reach: int = 128
    """Candidates aimed at, at least, where no top_k says how many are needed."""
    warps: int = 8


class Sample:
    """Picks one token of each of N rows of logits. Its buffers must outlive a graph that it was captured in."""

    def __init__(
        self, rows: int, vocab: int, device: torch.device | str, *, role: int = 0, config: SampleConfig | None = None
    ) -> None:
        """`vocab`: the ids that may be picked, from 0 on; `role`: of `glimpse.sampling.noise.Role`."""
        self.rows, self.vocab, self.role, self.config = rows, vocab, int(role), config or SampleConfig()
        self.blocks = -(-vocab // (self.config.group * self.config.groups))
        groups = self.blocks * self.config.groups
        self.summary = torch.zeros(rows, self.blocks, SUMMARY.value, device=device)
        self.peaks = torch.zeros(rows, groups, device=device)
        self.high = torch.zeros(rows, padded(groups, 2), dtype=torch.int32, device=device)
        self.gathered = torch.zeros(rows, self.config.room, dtype=torch.int64, device=device)
        numbers = (torch.zeros(rows, device=device) for _ in range(2))
        self.picks = Picks(torch.zeros(rows, dtype=torch.int64, device=device), *numbers)

    def __call__(
        self,
        logits: Tensor,
        settings: RowSettings,
        seeds: Tensor,
        positions: Tensor,
        salts: Tensor | None = None,
        *,
        ahead: int = 0,
        owners: Tensor | None = None,
    ) -> Picks:
        """The picks of `logits` [N, vocab or more] (float32 or bfloat16, rows contiguous).

        `seeds`, `positions` and `salts` [N] int64 key the noise as in `glimpse.sampling.noise`; no salts: 0.
        `ahead` is added to the positions. `owners` [N] int32: `settings` and `seeds` are those of fewer rows, and these
        say whose each is (-1: padding, whatever comes out).
        """
        config, picks = self.config, self.picks
        keyed = (
            settings.temperature,
            settings.top_k,
            settings.top_p,
            settings.log_min_p,
            seeds,
            positions,
            salts,
            owners,
        )
        options = {"ROLE": self.role, "SALTED": salts is not None, "OWNED": owners is not None, "AHEAD": ahead}
        summary_kernel[(self.rows, self.blocks)](
            logits, *keyed, self.summary, self.peaks, logits.stride(0), self.vocab, self.blocks,
            GROUP=config.group, GROUPS=config.groups, num_warps=config.warps, **options,
        )  # fmt: skip
        groups = self.peaks.shape[1]
        pick_kernel[(self.rows,)](
            logits, *keyed, self.summary, self.peaks, self.high, self.gathered, picks.tokens, picks.probabilities,
            picks.entropies, logits.stride(0), self.vocab, self.blocks, groups, config.reach, GROUP=config.group,
            BLOCKS_PAD=padded(self.blocks, 2), GROUPS_PAD=padded(groups, 2), TILE=config.tile,
            WIDE=min(config.wide, padded(self.vocab, 32)), FEW=min(config.few, config.room), ROOM=config.room,
            num_warps=config.warps, **options,
        )  # fmt: skip
        return picks
