"""Names for parts that can be swapped: built-in ones, and those that installed packages offer as entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from glimpse.errors import ArgumentError, GlimpseError


class Registry:
    """Resolves names of one group, such as `glimpse.acceptance`.

    `builtin` maps names to "module:attribute", imported only when asked for. A plug-in adds names through an entry
    point of the same group; it cannot take a built-in name.
    """

    def __init__(self, group: str, builtin: Mapping[str, str]) -> None:
        self.group = group
        self.builtin = dict(builtin)

    def names(self) -> list[str]:
        """Every known name, sorted."""
        return sorted({*self.builtin, *(point.name for point in entry_points(group=self.group))})

    def get(self, name: str) -> Any:
        """The object called `name`.

        Raises ArgumentError listing the known names when there is none, GlimpseError for a plug-in that cannot be
        imported.
        """
        if name in self.builtin:
            return _load(self.builtin[name])
        for point in entry_points(group=self.group, name=name):
            return self._plugin(name, point.value)
        kind = self.group.rpartition(".")[2]
        raise ArgumentError(f"{kind}: unknown name {name!r}; known: {', '.join(self.names())}")

    def _plugin(self, name: str, target: str) -> Any:
        try:
            return _load(target)
        except (Exception, SystemExit) as error:
            # Someone else's module may raise anything, and an exit of its own must not look like one of ours.
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise GlimpseError(f"{self.group}: the plug-in {name!r} ({target}) cannot be imported: {reason}") from error


def _load(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)
