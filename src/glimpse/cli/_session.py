"""The one place where a command gets its model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glimpse.cli.contract import Model, Progress
    from glimpse.cli.options import ModelOptions


def open_llm(options: ModelOptions, progress: Progress) -> Model:
    """`LLM` with the options that were given. Raises GlimpseError; its message is meant for the user."""
    from glimpse.llm import LLM
    from glimpse.model.demo import is_cached

    if options.model == "demo" and not is_cached():
        progress("download", 0, 0)
    model: Model = LLM(**options.given(), progress=progress)
    return model


@contextmanager
def session(options: ModelOptions, progress: Progress) -> Iterator[Model]:
    """An open model that is closed whatever happens."""
    llm = open_llm(options, progress)
    try:
        yield llm
    finally:
        llm.close()
