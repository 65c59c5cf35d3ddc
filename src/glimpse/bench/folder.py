"""The files that a run writes belong to it alone for as long as it runs."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from glimpse.errors import GlimpseError


@contextmanager
def alone_in(folder: Path, suite: str) -> Iterator[None]:
    """Makes the folder, and keeps other runs of the same suite out of it: two would mix their measurements.

    Other suites write other files, and may run beside it. Raises GlimpseError where another run of the suite is there,
    or where the folder cannot be written. The lock ends with the process, however that ends; where the file system has
    none, a run goes without.
    """
    path = folder / f".{suite}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = _locked(path)
    except BlockingIOError:
        raise GlimpseError(f"{folder} is in use by another run of {suite}; give another --out") from None
    except OSError as error:
        raise GlimpseError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def script_in(folder: Path, suite: str) -> Iterator[None]:
    """`alone_in` for a script: a GlimpseError ends the process with one line and its exit code, without a traceback."""
    try:
        with alone_in(folder, suite):
            yield
    except GlimpseError as error:
        print(f"{suite}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _locked(path: Path) -> int:
    """The open lock file. Raises BlockingIOError where somebody else holds it."""
    while True:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise
        except OSError:
            return handle
        if _still_there(path, handle):
            return handle
        os.close(handle)


def _still_there(path: Path, handle: int) -> bool:
    """Whether what was locked is what the next run will find: the last one may just have removed it."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False
