"""The command line: `glimpse generate`, `compare`, `models`, `doctor`; one file per command.

Nothing heavy is imported before a command runs, so help and argument errors answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line with `argv` (default: the process's arguments) and exit with 0, 1, 2 or 130."""
    from glimpse.cli.app import run

    sys.exit(run(sys.argv[1:] if argv is None else list(argv)))
