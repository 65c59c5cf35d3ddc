"""Blocks between device and host: how they are made there, and what the host reads of them beside the report."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.blocks import Standing, leave
from glimpse.attention.triton.groups import MASKS
from glimpse.attention.triton.picking import Sample
from glimpse.drafting.block.drafter import FLOOR
from glimpse.drafting.block.flex import FlexHead
from glimpse.engine.device.core import Core
from glimpse.engine.device.late import LateForward
from glimpse.engine.device.state import DeviceRows
from glimpse.errors import ArgumentError


class BlockState:
    """The next block of each of B rows.

    Where the host paces, it gets them, and nothing may be in flight when a step that makes blocks is launched. Where
    drafts have a length foretold (`ahead`), each stands behind its row's text when the step ends, and the next step
    verifies it: the host need not have read anything.
    """

    def __init__(self, core: Core, head: FlexHead, *, ahead: int = 0) -> None:
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
        self._block = torch.zeros(shape, dtype=torch.int32, device=device)
        self._host = torch.zeros(shape, dtype=torch.int32, pin_memory=device.type == "cuda")

    def leave(self, sample: Sample, logits: Tensor, rows: DeviceRows, groups: int) -> None:
        """Device code: the blocks that were just picked of the first rows, whose text has been committed."""
        standing = Standing(
            rows.counts, rows.length, rows.limit, rows.tokens, rows.drafted, rows.settings.top_k
        )  # fmt: skip
        leave(
            sample, logits, standing, groups, self.head.size, out=self._block, ahead=self.ahead, floor=FLOOR
        )  # fmt: skip

    def send(self, rows: int) -> None:
        """Sends the first rows' blocks to the host; to be read once a letter sent later has arrived."""
        self._host[:rows].copy_(self._block[:rows], non_blocking=True)

    def read(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Tokens [R, size] int64 and their chances [R, size] float32, of the step that was sent last."""
        own, size = self._host[rows], self.head.size
        return own[:, :size].long(), own[:, size:].contiguous().view(torch.float32)
