"""What every engine over the same cache holds while it works."""

from __future__ import annotations

from contextlib import AbstractContextManager
from threading import RLock
from types import TracebackType

import torch


class GpuLock:
    """A reentrant lock under which one GPU is the current one: Triton launches its kernels there."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._lock = device, RLock()
        self._before: list[int] = []

    def __enter__(self) -> GpuLock:
        self._lock.acquire()
        self._before.append(torch.cuda.current_device())
        torch.cuda.set_device(self._device)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        torch.cuda.set_device(self._before.pop())
        self._lock.release()


def lock_for(device: torch.device) -> AbstractContextManager[object]:
    """The lock of engines whose cache is on a device."""
    return GpuLock(device) if device.type == "cuda" else RLock()
