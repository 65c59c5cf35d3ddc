"""Blocks between device and host: how they are made there, and what the host reads of them beside the report."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.attention.triton.groups import MASKS
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
        self._places = torch.arange(head.size, device=core.rows.tokens.device)
        shape, device = (core.rows.size, 2 * head.size), core.rows.tokens.device
        self.ahead = min(ahead, head.size, core.rows.most)
        self._block = torch.zeros(shape, dtype=torch.int32, device=device)
        self._host = torch.zeros(shape, dtype=torch.int32, pin_memory=device.type == "cuda")

    def keep(self, tokens: Tensor, chances: Tensor) -> None:
        """Device code: blocks [R, size] int64 of the first rows and the chances [R, size] float32 of their tokens."""
        rows, size = tokens.shape
        self._block[:rows, :size] = tokens
        self._block[:rows, size:] = chances.view(torch.int32)

    def plant(self, rows: DeviceRows, tokens: Tensor, chances: Tensor, made: Tensor) -> None:
        """Device code: the blocks of rows that `made` [R] bool one behind their texts, as far as there is room."""
        sure = (torch.nan_to_num(chances, nan=0.0).cumprod(1) >= FLOOR).sum(1)
        left = rows.limit - rows.length - 1  # the target adds a token of its own
        rows.drafted.copy_(torch.minimum(sure, left).clamp(0, self.ahead) * made)
        places = (rows.length.long()[:, None] + self._places).clamp_max(rows.tokens.shape[1] - 1)
        # Behind a row's own draft stands what nobody will read; a row at rest is left alone.
        own = rows.tokens.gather(1, places)
        rows.tokens.scatter_(1, places, torch.where(made[:, None], tokens, own))

    def send(self, rows: int) -> None:
        """Sends the first rows' blocks to the host; to be read once a letter sent later has arrived."""
        self._host[:rows].copy_(self._block[:rows], non_blocking=True)

    def read(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Tokens [R, size] int64 and their chances [R, size] float32, of the step that was sent last."""
        own, size = self._host[rows], self.head.size
        return own[:, :size].long(), own[:, size:].contiguous().view(torch.float32)
