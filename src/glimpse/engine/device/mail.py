"""Reports on their way from the device to the host, a few at once, and the times between marks on the device."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glimpse.engine.device.report import Report

Array = np.ndarray[Any, np.dtype[Any]]


class Mark:
    """A moment of the device's work; without a GPU, of the host's."""

    def __init__(self, device: torch.device) -> None:
        self._event: Any = None
        if device.type == "cuda":
            self._event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(device))
        else:
            self._time = time.perf_counter()

    def wait(self) -> None:
        """Returns once the device has come here."""
        if self._event is not None:
            self._event.synchronize()

    @property
    def reached(self) -> bool:
        """Whether the device has come here; waits for nothing."""
        return self._event is None or bool(self._event.query())

    def since(self, earlier: Mark) -> float:
        """Seconds from an earlier mark; both have been waited for."""
        if self._event is None:
            return self._time - earlier._time
        return float(earlier._event.elapsed_time(self._event)) / 1e3


def upload(values: Tensor, device: torch.device) -> Tensor:
    """The host's `values` on the device, without waiting for the work it has."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values


@dataclass(frozen=True, slots=True)
class Letter:
    """What a `Report` said, as arrays on the host, valid until a few more letters have been sent."""

    counts: Array
    judged: Array
    broken: Array
    committed: Array
    entropy: Array
    confidence: Array
    relaxed: Array


class Mail:
    """Sends a device report to the host without waiting for it."""

    IN_FLIGHT = 4
    """Letters that may be unread; older ones are written over."""

    def __init__(self, report: Report) -> None:
        block = report.block
        self._report, size = report, report.drafted.shape[0]
        pinned = block.device.type == "cuda"
        blocks = (torch.empty(len(block), dtype=torch.uint8, pin_memory=pinned) for _ in range(self.IN_FLIGHT))
        self._free = deque((own, _letter(own, size, report.entropy.shape[1])) for own in blocks)

    def send(self) -> tuple[Letter, Mark]:
        """What the report says at this point of the device's work; read it once the mark has been waited for."""
        own, letter = self._free[0]
        self._free.rotate(-1)
        own.copy_(self._report.block, non_blocking=True)
        return letter, Mark(self._report.block.device)


def _letter(block: Tensor, size: int, most: int) -> Letter:
    report = Report.over(block, size, most)
    verdict = report.verdict
    return Letter(
        verdict.counts.numpy(), verdict.judged.numpy(), verdict.broken.numpy(), verdict.committed.numpy(),
        report.entropy.numpy(), report.confidence.numpy(), verdict.relaxed.numpy(),
    )  # fmt: skip
