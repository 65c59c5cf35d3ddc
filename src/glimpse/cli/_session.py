"""The one place where a command gets its model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from glimpse.cli.failures import complain

if TYPE_CHECKING:
    from glimpse.cli.contract import Model, Progress
    from glimpse.cli.options import ModelOptions


def open_llm(options: ModelOptions, progress: Progress) -> Model:
    """`LLM` with the options that were given. Raises GlimpseError; its message is meant for the user."""
    from glimpse.engine.place import DeviceWarning
    from glimpse.llm import LLM
    from glimpse.model.demo import is_cached

    if options.model == "demo" and not is_cached():
        progress("download", 0, 0)
    with _as_one_line(DeviceWarning):
        model: Model = LLM(**options.given(), progress=progress)
    return model


@contextmanager
def _as_one_line(category: type[Warning]) -> Iterator[None]:
    """Warnings of a category are one line on stderr, as errors are; others stay as they were."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", category)
        others = warnings.showwarning

        def show(message: Warning | str, kind: type[Warning], *where: Any) -> None:
            if issubclass(kind, category):
                complain(str(message))
            else:
                others(message, kind, *where)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


@contextmanager
def session(options: ModelOptions, progress: Progress) -> Iterator[Model]:
    """An open model that is closed whatever happens."""
    llm = open_llm(options, progress)
    try:
        yield llm
    finally:
        llm.close()
