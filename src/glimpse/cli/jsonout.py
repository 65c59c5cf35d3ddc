"""One JSON object on stdout and nothing else there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from glimpse.cli.writer import Writer


@contextmanager
def kept_clean(wanted: bool) -> Iterator[TextIO]:
    """The real stdout. Where the result is JSON, whatever a library prints meanwhile goes to stderr instead."""
    stdout = sys.stdout
    if not wanted:
        yield stdout
        return
    with redirect_stdout(sys.stderr):
        yield stdout


def emit(value: Mapping[str, Any], stdout: TextIO) -> None:
    """Print `value` as one object. ASCII, so that no terminal or locale can break it."""
    stdout.write(json.dumps(value, allow_nan=False, default=str) + "\n")
    stdout.flush()


def interrupted(written: Writer, prompt_tokens: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The object of a text that Ctrl-C ended: what was written so far; nothing was counted or timed to its end."""
    return {
        "text": written.text,
        "token_ids": written.token_ids,
        "finish_reason": "abort",
        "stop_reason": None,
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": len(written.token_ids)},
        "speculation": None,
        "timing": None,
        "settings": dict(settings),
    }
