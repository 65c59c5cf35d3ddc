"""The block that a trained adapter drafts at every position of a text, what its draft would have been there.

Under `coupled` the text does not depend on what is drafted, and a block depends on the text before it alone (the masks
that made it rode behind the last token read, whichever step read it). So the text is decoded once, plainly, with a
group of masks on every step, and what a drafter and its pacer would have made of it is counted afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from benchmarks.libra_traces import FARTHEST, Start, agreeing
from glimpse import LLM, SamplingParams
from glimpse.bench.held import parts_of
from glimpse.cache.rows import RowView
from glimpse.drafting.block.drafter import FLOOR, BlockDrafter
from glimpse.engine.engine import Engine
from glimpse.engine.parts import Parts
from glimpse.engine.riding import BlockDraws
from glimpse.errors import GlimpseError
from glimpse.sampling.law import Laws
from glimpse.sampling.leading import leading
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.noise import Role
from glimpse.sampling.pipeline import Sampler


class _Listening:
    """The engine's sampler as far as `BlockDraws` knows it; what it drew from last is kept."""

    def __init__(self, sampler: Sampler) -> None:
        self.seeds_of, self._laws = sampler.seeds_of, sampler.laws

    def laws(self, logits: Tensor, nodes: Nodes) -> Laws:
        self._heard = logits, nodes, self._laws(logits, nodes)
        return self._heard[2]

    def margins(self) -> Tensor:
        """[nodes]: by how much the runner-up lay behind each token that was last drawn."""
        logits, nodes, laws = self._heard
        _, scores = leading(laws, logits, self.seeds_of(nodes), nodes.position, Role.TARGET, 0, 2)
        return (scores[:, 0] - scores[:, 1]).clamp_max(FARTHEST)


class Recorder(BlockDrafter):
    """Notes every block and offers none, so that each step makes one."""

    def __init__(self, parts: Parts) -> None:
        """In the place of the block drafter of `parts`, which draw under `coupled`."""
        if not isinstance(parts.drafter, BlockDrafter):
            raise GlimpseError(f"drafter {parts.drafter.name!r} makes no blocks")
        self._sampler = _Listening(parts.sampler)
        super().__init__(parts.drafter.head, BlockDraws(self._sampler, parts.acceptance))
        self.found: dict[int, dict[int, tuple[list[int], list[float], list[float]]]] = {}
        """By slot and committed length: tokens, confidences, margins. Kept when the row has ended."""

    def admit(self, rows: RowView) -> None:
        """Begins a record."""
        for slot in rows.slots:
            if slot in self.found:
                raise GlimpseError("more texts than rows: the record of one would be written over")
            self.found[slot] = {}

    def ready(self, rows: RowView) -> list[bool]:
        """Never."""
        return [False] * len(rows)

    def keep(self, rows: RowView, tokens: Tensor, chances: Tensor) -> None:
        """Notes the blocks."""
        facts = tokens.tolist(), chances.tolist(), self._sampler.margins().view_as(chances).tolist()
        lengths = rows.column(rows.rows.committed_len)
        for slot, length, *own in zip(rows.slots, lengths, *facts, strict=True):
            self.found[slot][length] = tuple(own)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A text that the model wrote, and the block at each of its positions but the first."""

    tokens: list[int]
    starts: list[Start]
    """Behind 1, 2, ... of `tokens`, without entropies; `right` ends where the text does."""


def record(llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams, adapter: str | None) -> list[Recorded]:
    """What the model writes behind each prompt, with the blocks of `adapter`. As many prompts as rows, at most."""
    arm = llm.variant(drafter="block", adapter=adapter, pacer="fixed")
    recorder = Recorder(parts_of(arm))
    arm._engine = Engine(replace(parts_of(arm), drafter=recorder), arm.options)
    outs = arm.generate([list(ids) for ids in prompts], params)
    found = []
    for ids, own, out in zip(prompts, recorder.found.values(), outs, strict=True):
        tokens = list(out.token_ids)
        starts = [
            Start(tuple(said), (), tuple(margin), agreeing(drafted, tokens[length - len(ids) :]))
            for length, (drafted, said, margin) in sorted(own.items())
            if length < len(ids) + len(tokens)
        ]
        found.append(Recorded(tokens, starts))
    return found


def offered(start: Start) -> int:
    """How much of a block the drafter offers: as far as its chance is not below FLOOR."""
    return int((np.cumprod(start.confidence) >= FLOOR).sum())


def rounds_of(starts: Sequence[Start]) -> list[tuple[int, int]]:
    """(tokens verified, accepted) of every round of a request that has a block wherever a round ends, and verifies all
    of it: FlexDraft's parallel way."""
    found, at = [], 0
    while at < len(starts):
        tokens = min(offered(starts[at]), len(starts) - 1 - at)
        accepted = min(tokens, starts[at].right)
        found.append((tokens, accepted))
        at += accepted + 1
    return found
