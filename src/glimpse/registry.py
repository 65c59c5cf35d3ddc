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
    point of the same group; it cannot take a built-in name. `base` ("module:class"), where there is one, is what every
    object of the group has to inherit: defaults and methods that its users rely on.
    """

    def __init__(self, group: str, builtin: Mapping[str, str], base: str | None = None) -> None:
        self.group, self._base = group, base
        self.builtin = dict(builtin)

    def names(self) -> list[str]:
        """Every known name, sorted."""
        return sorted({*self.builtin, *(point.name for point in entry_points(group=self.group))})

    def get(self, name: str) -> Any:
        """The object called `name`.

        Raises ArgumentError listing the known names when there is none, GlimpseError for a plug-in that cannot be
        imported, or is no class of the kind.
        """
        if name in self.builtin:
            return self._checked(name, _load(self.builtin[name]))
        for point in entry_points(group=self.group, name=name):
            return self._checked(name, self._plugin(name, point.value))
        kind = self.group.rpartition(".")[2]
        raise ArgumentError(f"{kind}: unknown name {name!r}; known: {', '.join(self.names())}")

    def _checked(self, name: str, found: Any) -> Any:
        if self._base is None:
            return found
        if _load(self._base) not in getattr(found, "__mro__", ()):
            raise GlimpseError(
                f"{self.group}: the plug-in {name!r} is no class that inherits {self._base.replace(':', '.')}"
            )
        missing = sorted(found.__abstractmethods__)
        if missing:
            raise GlimpseError(f"{self.group}: the plug-in {name!r} has no {', '.join(missing)}")
        return found

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
