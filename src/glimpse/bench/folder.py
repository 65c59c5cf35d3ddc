"""The folder that a run writes into belongs to it alone for as long as it runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glimpse.errors import GlimpseError


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Makes the folder, and keeps other runs out of it: two would mix their measurements.

    Raises GlimpseError where another run is in it, or where it cannot be made. The lock ends with the process, however
    that ends; a file system without locks is used without.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise GlimpseError(f"cannot write into {folder}: {error.strerror or error}") from error
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise GlimpseError(f"{folder} is in use by another run; give another --out") from None
    except OSError:
        pass
