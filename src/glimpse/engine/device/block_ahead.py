"""What a batch does next where blocks are priced: drafts or plain steps, a step ahead of the host either way.

The step that makes a block has its confidences, and cuts it there by the row's rule (`pacing.block_rule`). The host
hears of the block a step later, learns what confidences are worth, and now and then sends new rules and chooses the way
(`pacing.block_ways`). Whether drafting pays at all is measured, from the end of one step to the end of the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from torch import Tensor

from glimpse.cache.rows import RowView
from glimpse.drafting.block.drafter import FLOOR
from glimpse.engine.device.block_launch import BlockMove
from glimpse.engine.device.block_state import BlockState
from glimpse.engine.device.lasting import LastingAsking
from glimpse.engine.device.pace import Move
from glimpse.engine.parts import Parts
from glimpse.pacing.block_rule import CutRule, chain_of
from glimpse.pacing.block_ways import BlockWay, BlockWays
from glimpse.pacing.marginal import MarginalPacer
from glimpse.pacing.proposals import Floats
from glimpse.pacing.worth import token_prices

RENEWED = 16
"""Steps that draft, after which rules and way are looked at anew; sooner where rows come or go."""
TRIES, SHARE = 6, 0.01
"""Steps of a try, the first of which has no drafts yet; what tries may cost of the time."""
HOPE = 0.8
"""Speed over plain decoding, of blocks of the usual worth by prices, below which drafting is not tried."""
SHUT, LONGEST_SHUT = 64, 1024
"""Plain steps until prices are asked again, at first and at most: twice as many each time that they leave no hope."""


class AheadBlocks:
    """Paces rows whose pacer says by which rule blocks are cut (`Pacer.cuts`)."""

    def __init__(self, blocks: BlockState, parts: Parts, queries: Callable[[int], int], mode: str) -> None:
        """`queries(k)`: tokens a row of a step launched for drafts of k; `mode`: one of `riding.MODES`. In the paper's
        two ways rows draft whatever it costs."""
        self._blocks, self._costs = blocks, parts.costs
        self.asking = LastingAsking(TRIES, SHARE) if mode == "auto" else None
        """What says whether rows draft."""
        self._pacer = cast(MarginalPacer, parts.pacer)
        self._ways = BlockWays(parts.costs, blocks.head.size, blocks.ahead, blocks.most, queries, mode)
        self._way: BlockWay | None = None
        """What was chosen last; None: prices left no hope."""
        self._slots, self._left = tuple[int, ...](), 0
        """The rows that rules were sent for, and for how many more steps they hold."""
        self._shut = SHUT
        """Plain steps until prices are asked again, if they leave no hope."""
        self._made = False
        """The last step left blocks to verify."""
        self._rules: dict[int, CutRule] = {}
        """By slot, what was sent last."""

    def next(self, view: RowView, *, plain: bool = False) -> Move | BlockMove:
        """What to launch now for these rows; `plain`: a plain step, which drops their drafts."""
        way = None if plain else self._drafting(view)
        if way is None:
            if self.asking and (plain or self._way is None):
                self.asking.skip()
            self._made = False
            return Move(0, verifies=True)
        if not way.sequential:
            self._made = True
            return BlockMove(way.length, (tuple(range(way.groups)),) * len(view), way.groups)
        self._made = not self._made
        return BlockMove(0, ((0,),) * len(view), 1) if self._made else Move(0, verifies=True, drafted=way.length)

    def leave(self, slot: int) -> None:
        """Forgets a row; whoever is next in its slot needs a rule."""
        self._ways.leave(slot)
        self._rules.pop(slot, None)
        self._slots = ()

    def heard(self, view: RowView, tokens: Tensor, chances: Tensor) -> None:
        """The blocks [rows, size] that go on from what these rows have committed, with the chances of their tokens."""
        said = np.nan_to_num(chances.double().numpy())
        counts = (said.cumprod(1) >= FLOOR).sum(1).tolist()
        for slot, own, sure, count in zip(view.slots, tokens.tolist(), said, counts, strict=True):
            proposal, trust = chain_of(own[:count], sure[:count].tolist()), self._pacer.trust_of(slot)
            self._pacer.expect(slot, proposal)
            kept = self._rules[slot].length(proposal.said)
            self._ways.heard(slot, proposal.along(trust.chances(proposal))[:kept])

    def _drafting(self, view: RowView) -> BlockWay | None:
        """How these rows draft; None: they do not."""
        if self.asking and self.asking.rests(view.slots):
            self.asking.asks(view.slots)
            return None
        self._left -= 1
        if self._left < 0 or view.slots != self._slots:
            self._renew(view)
        if self._way is None or (self.asking and not self.asking.asks(view.slots)):
            return None
        return self._way

    def _renew(self, view: RowView) -> None:
        lengths = view.column(view.rows.committed_len)
        plain, self._slots = self._ways.plain_rate(lengths), view.slots
        if self.asking is not None and self._ways.hope(lengths) < HOPE * plain:
            self._way, self._left = None, self._shut
            self._shut = min(2 * self._shut, LONGEST_SHUT)
            return
        self._shut, self._left = SHUT, RENEWED
        self._way = self._ways.choose(view.slots, lengths)
        rate = max(plain, self._ways.rate(self._way, view.slots, lengths))
        self._send(view, rate * token_prices(self._costs, lengths))

    def _send(self, view: RowView, floors: Floats) -> None:
        """Rules for these rows, by the least chance that is worth a token of each."""
        for slot, floor in zip(view.slots, floors.tolist(), strict=True):
            self._rules[slot] = self._pacer.rule(slot, floor)
        self._blocks.rule([self._rules[slot] for slot in view.slots])
