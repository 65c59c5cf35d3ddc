"""Errors that a user can mend. Each carries one clear line; `exit_code` is what the command line exits with."""

from __future__ import annotations

_LONGEST = 1_000
"""Characters of a message that are shown: a file may name things that are much longer."""


class GlimpseError(Exception):
    """Something failed: a broken file, a full disk, too little memory. Exit code 1.

    Whatever the message was made of (names in a file, another library's report), it is one line that any terminal
    shows as it is: line breaks become spaces, control characters and broken Unicode their escapes.
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(_one_line(message))


class ArgumentError(GlimpseError, ValueError):
    """An option or input is wrong; the message names the value and what would be right. Exit code 2."""

    exit_code = 2


class ModelError(GlimpseError):
    """A checkpoint cannot be used: unknown architecture, corrupt or half-written files. Exit code 1."""


class NoRoom(GlimpseError):
    """A request needs more of the cache than others have left of it; later there may be room. Exit code 1."""


def _one_line(message: str) -> str:
    if len(message) > _LONGEST:
        message = f"{message[:_LONGEST]}..."
    if message.isprintable():
        return message
    joined = " ".join(message.splitlines())
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in joined)
