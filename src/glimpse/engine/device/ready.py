"""Graphs captured before a step asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from glimpse.engine.device.core import Core
from glimpse.engine.device.graphs import Graphs, Step
from glimpse.engine.parts import Parts


def capture_all(steps: Iterator[Step], graphs: Graphs, lock: AbstractContextManager[Any]) -> int:
    """Captures one after the other, until all are or memory is short; returns how many there are now.

    The lock is free between two of them.
    """
    made = 0
    while made < graphs.MOST:
        with lock, torch.inference_mode(), graphs.warming():
            try:
                step = next(steps, None)
                if step is None or not graphs.make(step):
                    break
            except torch.OutOfMemoryError:  # the buffers of a step are made with it
                break
        made += 1
    return len(graphs)


def longest_chain(parts: Parts, core: Core) -> int:
    """The longest draft of these parts that is neither a tree nor verified with masks alone; 0: there is none."""
    if core.trust is not None:
        return 0  # drafts are part of every step
    if core.drafts:
        own = parts.pacer.in_step.fleet if parts.pacer.in_step else parts.pacer
        return min(own.most, core.rows.most)
    if core.blocks is not None and core.blocks.ahead:
        return core.blocks.ahead if core.blocks.cuts else 0  # those made in steps of their own have none with them
    if core.trees is not None:
        return 0
    return core.rows.most if parts.drafter.drafts else 0
