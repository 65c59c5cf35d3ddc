"""Errors that a user can mend. Each carries one clear line; `exit_code` is what the command line exits with."""


class GlimpseError(Exception):
    """Something failed: a broken file, a full disk, too little memory. Exit code 1."""

    exit_code = 1


class ArgumentError(GlimpseError, ValueError):
    """An option or input is wrong; the message names the value and what would be right. Exit code 2."""

    exit_code = 2


class ModelError(GlimpseError):
    """A checkpoint cannot be used: unknown architecture, corrupt or half-written files. Exit code 1."""
