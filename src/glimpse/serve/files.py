"""How many connections a server takes: fewer than the process may open files.

Without a file left, asyncio's accept fails as often as its backlog is long, each time with a traceback in the log.
"""

from __future__ import annotations

import sys
from contextlib import suppress

_WANTED = 1 << 16


def connections_allowed() -> int:
    """Half of the files that may be open, once the process has asked for as many as it may have."""
    try:
        import resource
    except ImportError:  # no such limit there
        return sys.maxsize
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if wanted > soft:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
