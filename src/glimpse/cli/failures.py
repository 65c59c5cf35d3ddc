"""What every command does when it fails: one line on stderr and the right exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from glimpse.errors import GlimpseError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def complain(message: str) -> None:
    """Write `glimpse: message` to stderr as one line, whatever line breaks the message has."""
    line = " ".join(message.split())
    sys.stderr.write(f"glimpse: {line}\n".encode("utf-8", "backslashreplace").decode("utf-8"))
    sys.stderr.flush()


def guarded(action: Callable[[], int], *, debug: bool) -> int:
    """The exit code of `action`: its own, or that of the error it ended with. `debug` adds the traceback."""
    try:
        code = action()
        sys.stdout.flush()
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _stop_writing()
        return DONE
    except Exception as error:
        if debug:
            traceback.print_exc()
        complain(_line(error))
        return error.exit_code if isinstance(error, GlimpseError) else FAILED
    return code


def _line(error: Exception) -> str:
    if isinstance(error, GlimpseError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory; a smaller --max-context or another --dtype needs less"
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    said = next(iter(str(error).strip().splitlines()), "")
    return f"unexpected {type(error).__name__}: {said} (--debug shows where)"


def _stop_writing() -> None:
    """The reader went away (`| head`): that is its right, so what is still buffered goes nowhere, quietly."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
