"""Turns what a head says into drafts (FlexDraft, arXiv 2605.20022, "flex decoding")."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glimpse.cache.rows import RowView
from glimpse.drafting.block.adapter import NEEDED, read_adapter
from glimpse.drafting.block.contract import BlockCost, BlockHead, Draw, Seen
from glimpse.drafting.block.flex import FlexHead
from glimpse.drafting.drafter import Draft, DraftContext, Drafter, Outcome
from glimpse.drafting.tree import EMPTY, Tree, chain_tree, draft_of
from glimpse.errors import ArgumentError

FLOOR = 0.01
"""A draft ends before the chance that all of it is right falls below this (the release's default)."""
KEPT = 0.9
"""Weight of the past in what the head costs."""


@dataclass(frozen=True, slots=True)
class _Block:
    tokens: list[int]
    confidence: list[float]
    at: int
    """The committed length that it goes on from."""


class BlockDrafter(Drafter):
    """Offers blocks of a head as chains, cut where little is left of their confidence.

    A block is made from the forward that committed the tokens before it, so `plan` has it at once; where no mask tokens
    rode on the row that came true, there is none, and the next step is a plain one that they ride on.
    """

    name = "block"
    drafts = True
    needs_forward = False
    gives_tree = False
    has_law = False
    wants_successors = False
    wants_prompt_topk = False
    wants_hidden = True
    lossless = True
    importance = 0
    usual_pacer = "marginal"

    def __init__(self, head: BlockHead, draw: Draw) -> None:
        self.head, self._draw = head, draw
        self._blocks: dict[int, _Block] = {}
        self._seconds = 0.0

    @property
    def cost(self) -> BlockCost:
        """What one more block costs."""
        return BlockCost(self._seconds, self.head.size if self.head.path else 0)

    def admit(self, rows: RowView) -> None:
        """Nothing is known of a request before its prompt was read."""

    def ready(self, rows: RowView) -> list[bool]:
        """Where there is a block that goes on from the last committed token."""
        lengths = rows.column(rows.rows.committed_len)
        return [self._block(slot, length) is not None for slot, length in zip(rows.slots, lengths, strict=True)]

    def plan(self, rows: RowView, room: list[int]) -> Draft:
        """The rows' blocks, cut to their room."""
        return draft_of([self.offer(rows, slot, most) for slot, most in zip(rows.slots, room, strict=True)])

    def offer(self, rows: RowView, slot: int, room: int) -> Tree:
        """One row's block, cut to its room; empty where there is none that goes on from the last committed token."""
        block = self._block(slot, int(rows.rows.committed_len[slot]))
        if block is None:
            return EMPTY
        keep = max(room, 0)
        return chain_tree(block.tokens[:keep], block.confidence[:keep])

    def rides(self, slot: int) -> bool:
        """Always: a step without masks makes no block."""
        return True

    def absorb(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Asks the head for the next blocks."""
        seen = [found for outcome in outcomes if (found := self._seen(rows, outcome)) is not None]
        if seen:
            started = time.perf_counter()
            logits = self.head.propose(seen)
            own = RowView(rows.rows, tuple(one.slot for one in seen))
            self.keep(own, *self._draw(own, logits))
            self._count((time.perf_counter() - started) / len(seen))

    def retire(self, rows: RowView) -> None:
        """Drops the blocks."""
        for slot in rows.slots:
            self._blocks.pop(slot, None)
            self.head.retire(slot)

    def _block(self, slot: int, length: int) -> _Block | None:
        block = self._blocks.get(slot)
        return block if block is not None and block.at == length else None

    def _seen(self, rows: RowView, outcome: Outcome) -> Seen | None:
        """What the head is told; None where it has nothing to go by, or the request has ended."""
        whole = len(outcome.tokens) == outcome.accepted + 1
        if not whole or outcome.hidden is None or (self.head.path is not None and outcome.masks is None):
            return None
        count, length = len(outcome.hidden), int(rows.rows.committed_len[outcome.slot])
        read = rows.rows.tokens[outcome.slot, length - 1 - count : length - 1].clone()
        return Seen(outcome.slot, outcome.tokens[-1], read, outcome.hidden, outcome.masks)

    def keep(self, rows: RowView, tokens: Tensor, chances: Tensor) -> None:
        """The blocks [rows, size] that go on from what these rows have committed, with their tokens' probabilities.

        Drawn here, or by who runs the target and its masks elsewhere. A block ends where little is left of its chance.
        """
        sure = torch.nan_to_num(chances, nan=0.0)
        counts = (sure.cumprod(1) >= FLOOR).sum(1).tolist()
        for slot, own, chance, count in zip(rows.slots, tokens.tolist(), sure.tolist(), counts, strict=True):
            length = int(rows.rows.committed_len[slot])
            self._blocks[slot] = _Block(own[:count], chance[:count], length)

    def _count(self, seconds: float) -> None:
        self._seconds = KEPT * self._seconds + (1 - KEPT) * seconds if self._seconds else seconds


class FlexDrafter(BlockDrafter):
    """`--drafter block`: blocks of the target's own mask tokens, by an adapter."""

    takes_adapter = True
    needs_adapter = True

    @classmethod
    def build(cls, context: DraftContext) -> FlexDrafter:
        """With the adapter asked for. Raises ArgumentError without one, and what `read_adapter` raises."""
        target = context.target
        if target is None or target.adapter is None:
            raise ArgumentError(f"drafter {cls.name!r} {NEEDED}")
        adapter = read_adapter(Path(target.adapter), target.decoder.spec, target.fingerprint)
        return cls(FlexHead(target.decoder, adapter), target.draw)
