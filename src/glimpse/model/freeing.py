"""Giving freed memory back to the operating system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Return memory that was freed but is still held by the C library; does nothing where that is not glibc.

    Loading frees many short-lived buffers between long-lived weights. Left alone, glibc keeps a tenth of a small
    model's size in the gaps.
    """
    _trimmer()()


@cache
def _trimmer() -> Callable[[], object]:
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return lambda: None
    return lambda: trim(0)
