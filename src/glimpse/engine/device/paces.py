"""What says what a batch does next, where the host does not draft."""

from __future__ import annotations

from glimpse.engine.device.block_ahead import AheadBlocks
from glimpse.engine.device.block_pace import BlockPace
from glimpse.engine.device.core import Core
from glimpse.engine.device.launch import Launcher
from glimpse.engine.device.own_pace import OwnPace
from glimpse.engine.device.pace import Pace
from glimpse.engine.device.trust_pace import TrustPace
from glimpse.engine.parts import Parts

AnyPace = Pace | OwnPace | BlockPace | AheadBlocks | TrustPace


def pace_of(parts: Parts, core: Core, launcher: Launcher, mode: str) -> AnyPace:
    """The pace of these parts; `mode`: how blocks are drafted (`riding.MODES`)."""
    if core.trust is not None:
        return TrustPace()
    if core.blocks is not None and core.blocks.cuts:
        return AheadBlocks(core.blocks, parts, launcher.queries, mode)
    if core.blocks is not None and core.blocks.ahead:
        return BlockPace(core.blocks)
    if parts.pacer.in_step:
        return OwnPace(parts.pacer.in_step.fleet, min(parts.pacer.in_step.fleet.most, core.rows.most))
    if core.drafts and not parts.pacer.foretells:
        return OwnPace(parts.pacer, core.rows.most)
    return Pace(parts.pacer, core.rows.most, drafts=core.drafts)
