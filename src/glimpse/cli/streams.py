"""The standard streams, made fit for text of any kind; any of them may be missing."""

from __future__ import annotations

import io
import sys

from glimpse.errors import GlimpseError


def prepare() -> None:
    """Characters that stdout's encoding lacks are written as escapes. Raises GlimpseError where stdout is closed."""
    if sys.stderr is None:
        # Whoever closed it wants no messages; these and those of libraries still need somewhere to go.
        sys.stderr = io.StringIO()
    if sys.stdout is None:
        raise GlimpseError("standard output is closed; send it somewhere, to /dev/null for instance")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="backslashreplace")
