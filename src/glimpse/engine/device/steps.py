"""What a step is launched as, how it is timed, and what it carries."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from glimpse.attention.triton.mixed import Want
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import RowView
from glimpse.engine.device.block_launch import BlockMove
from glimpse.engine.device.graphs import Ran
from glimpse.engine.device.launch import Launcher
from glimpse.engine.device.mail import Mark
from glimpse.engine.device.own_pace import Mixture
from glimpse.engine.device.pace import Move
from glimpse.engine.device.settle import Timed
from glimpse.engine.device.tree_launch import TreeMove
from glimpse.pacing.block_ways import masked_load
from glimpse.pacing.costs import StepLoad

AnyMove = Move | Mixture | TreeMove | BlockMove
"""What a pace can say."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the device was given."""

    ran: Ran
    verifies: bool
    steps: int
    timed: tuple[Timed, ...]
    trees: TreeMove | None = None
    blocks: BlockMove | None = None


class Steps:
    """Launches what a pace says."""

    def __init__(self, launcher: Launcher, budget: RecallBudget, device: torch.device) -> None:
        self._launcher, self._budget, self._device = launcher, budget, device

    def launch(self, move: AnyMove, view: RowView) -> Given:
        """One step of these rows, or a round."""
        if isinstance(move, TreeMove):
            return self._trees(move, view)
        if isinstance(move, BlockMove):
            return self._blocks(move, view)
        return self._mixed(move, view) if isinstance(move, Mixture) else self._alike(move, view)

    def _alike(self, move: Move, view: RowView) -> Given:
        launcher, rows = self._launcher, len(view)
        timed, begun, ran = [], Mark(self._device), Ran(graph=True)
        if move.drafts:
            ran &= launcher.draft(rows, move.drafts)
            drafted = Mark(self._device)
            timed.append(Timed(begun, drafted, self._draft_load(_lengths(view)), move.drafts))
            begun = drafted
        if move.verifies:
            verified, queries = launcher.verify(rows, move.drafted, move.learn)
            ran &= verified
            timed.append(Timed(begun, Mark(self._device), _verify_load(view, move, queries), 1))
        return Given(ran, move.verifies, move.drafts + move.verifies, tuple(timed))

    def _mixed(self, mixture: Mixture, view: RowView) -> Given:
        begun = Mark(self._device)
        ran, tokens = self._launcher.mixed(mixture.wants, mixture.drafted)
        timed = Timed(begun, Mark(self._device), self._mixed_load(mixture, _lengths(view), tokens), 1)
        return Given(ran, True, 1, (timed,))

    def _trees(self, move: TreeMove, view: RowView) -> Given:
        begun = Mark(self._device)
        ran, tokens = self._launcher.trees(move)
        timed = Timed(begun, Mark(self._device), _tree_load(move, tokens, _lengths(view)), 1)
        return Given(ran, True, 1, (timed,), move)

    def _blocks(self, move: BlockMove, view: RowView) -> Given:
        begun = Mark(self._device)
        ran, shape = self._launcher.blocks(move)
        timed = Timed(
            begun, Mark(self._device), masked_load(_lengths(view), shape.queries, shape.groups, shape.masks), 1
        )
        return Given(ran, True, 1, (timed,), blocks=move)

    def _draft_load(self, lengths: list[int]) -> StepLoad:
        return StepLoad(draft_tokens=len(lengths), draft_kv=sum(map(self._budget.positions, lengths)))

    def _mixed_load(self, mixture: Mixture, lengths: list[int], tokens: int) -> StepLoad:
        """Padding up to `tokens` is counted as tokens that read everything: products run over it."""
        drafting = [length for length, want in zip(lengths, mixture.wants, strict=True) if want is Want.DRAFT]
        reading = [
            (want.tokens(drafted), length)
            for length, want, drafted in zip(lengths, mixture.wants, mixture.drafted, strict=True)
            if want >= Want.PLAIN
        ]
        return self._draft_load(drafting) + StepLoad(
            full_tokens=tokens - len(drafting),
            full_kv=sum(length + own - 1 for own, length in reading),
            pairs=sum(own * length for own, length in reading),
            rounds=sum(want >= Want.ADD for want in mixture.wants),
            mixed=int(bool(drafting and reading)),
        )


def _lengths(view: RowView) -> list[int]:
    return view.numbers(view.rows.arrays.committed)


def _verify_load(view: RowView, move: Move, queries: int) -> StepLoad:
    lengths, tokens = sum(_lengths(view)), len(view) * queries
    return StepLoad(
        full_tokens=tokens, full_kv=lengths + tokens - len(view), pairs=queries * lengths,
        rounds=len(view) if move.learn else 0,
    )  # fmt: skip


def _tree_load(move: TreeMove, tokens: int, lengths: list[int]) -> StepLoad:
    return StepLoad(
        full_tokens=move.loaded(tokens),
        full_kv=sum(lengths) + sum(move.drafted),
        pairs=sum((drafted + 1) * length for drafted, length in zip(move.drafted, lengths, strict=True)),
    )
