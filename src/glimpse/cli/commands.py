"""Commands whose options are dataclasses: options are written once and shared by the commands that take them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, get_type_hints

import typer

from glimpse.cli.failures import guarded
from glimpse.cli.options import OutputOptions
from glimpse.cli.parsing import real, whole

_PARSERS: dict[Any, Callable[[str], Any]] = {int | None: whole, float | None: real}
"""Our own, so that an error names the value."""


def command(app: typer.Typer, name: str, body: Callable[..., int], groups: Sequence[type]) -> None:
    """Register `body(*options) -> exit code` as command `name`; it gets one object of each class in `groups`.

    Each group is a dataclass whose fields are `Annotated[type, typer.Option(...)]`; each field becomes an option.
    """

    def call(**values: Any) -> None:
        options = [group(**{field.name: values[field.name] for field in fields(group)}) for group in groups]
        debug = any(isinstance(group, OutputOptions) and group.debug for group in options)
        # Guarded here already: typer has its own ideas of Ctrl-C and closed pipes.
        raise typer.Exit(guarded(lambda: body(*options), debug=debug))

    parameters = [parameter for group in groups for parameter in _parameters(group)]
    call.__doc__ = body.__doc__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    app.command(name)(call)


def _parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for hint in hints.values():
        hint.__metadata__[0].parser = _PARSERS.get(hint.__origin__)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default
