"""Blocks between device and host: how they are made there, and what the host reads of them beside the report."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from glimpse.attention.triton.blocks import Standing, leave
from glimpse.attention.triton.cutting import cut
from glimpse.attention.triton.groups import MASKS
from glimpse.attention.triton.picking import Sample
from glimpse.drafting.block.drafter import FLOOR
from glimpse.drafting.block.flex import FlexHead
from glimpse.engine.device.core import Core
from glimpse.engine.device.late import LateForward
from glimpse.engine.device.mail import Mail, upload
from glimpse.engine.device.state import DeviceRows
from glimpse.errors import ArgumentError
from glimpse.pacing.block_rule import NUMBERS, CutRule
from glimpse.pacing.proposals import DEPTHS, SURENESS, SUREST


class BlockState:
    """The next block of each of B rows.

    Where the host paces, it gets them, and nothing may be in flight when a step that makes blocks is launched. Where
    drafts have a length foretold (`ahead`), each stands behind its row's text when the step ends, and the next step
    verifies it: the host need not have read anything. With `cuts`, the length is each row's rule's, which the host
    sends now and then, and it hears of the blocks a step later.
    """

    def __init__(self, core: Core, head: FlexHead, *, ahead: int = 0, cuts: bool = False) -> None:
        """`ahead`: the longest draft that is foretold; 0: the host paces. Raises ArgumentError for a head whose masks
        this forward does not do."""
        if head.path is None:
            raise ArgumentError("a block head without mask tokens")
        self.head = head
        # The masks of a row's last group count on behind its longest draft.
        width = core.width + core.rows.most + head.size
        self.forward = LateForward(core.decoder, core.pool, core.forward, head.path, width)
        self.most = max(1, MASKS // head.size)
        """Groups that a row may have: those behind its first tokens."""
        shape, device = (core.rows.size, 2 * head.size), core.rows.tokens.device
        self.ahead = min(ahead, head.size, core.rows.most)
        self.cuts = cuts and self.ahead > 0
        """Whether rows have rules; until one is sent, a row's keeps all."""
        self.told = cuts or not self.ahead
        """Whether the host gets the blocks."""
        self._block = torch.zeros(shape, dtype=torch.int32, device=device)
        self._rules = torch.zeros(core.rows.size, NUMBERS, device=device)
        self._bounds = torch.tensor(SURENESS, device=device)
        pinned = device.type == "cuda"
        self._free = deque(torch.zeros(shape, dtype=torch.int32, pin_memory=pinned) for _ in range(Mail.IN_FLIGHT))
        self._sent = deque[Tensor]()

    def leave(self, sample: Sample, logits: Tensor, rows: DeviceRows, groups: int) -> None:
        """Device code: the blocks that were just picked of the first rows, whose text has been committed."""
        standing = Standing(
            rows.counts, rows.length, rows.limit, rows.tokens, rows.drafted, rows.settings.top_k
        )  # fmt: skip
        leave(
            sample, logits, standing, groups, self.head.size, out=self._block, ahead=self.ahead, floor=FLOOR
        )  # fmt: skip
        if self.cuts:
            count = len(rows.counts)
            cut(self._block[:count], self._rules[:count], self._bounds, rows.drafted, DEPTHS, SUREST)

    def rule(self, rules: Sequence[CutRule]) -> None:
        """From the next step on blocks of the first rows are cut so."""
        numbers = torch.tensor([own.numbers for own in rules])
        self._rules[: len(rules)].copy_(upload(numbers, self._rules.device))

    def send(self, rows: int) -> None:
        """Sends the first rows' blocks to the host; to be read once a letter sent later has arrived."""
        self._free.rotate(-1)
        self._free[-1][:rows].copy_(self._block[:rows], non_blocking=True)
        self._sent.append(self._free[-1])

    def read(self) -> tuple[Tensor, Tensor]:
        """Tokens [B, size] int64 and their chances [B, size] float32, of the step that was sent first of those that
        have not been read."""
        own, size = self._sent.popleft(), self.head.size
        return own[:, :size].long(), own[:, size:].contiguous().view(torch.float32)
