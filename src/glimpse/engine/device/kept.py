"""A bounded number of things that are costly to make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by key, made when asked for; the one not used for longest goes where a new one would be too many."""

    def __init__(self, most: int, make: Callable[[K], V], drop: Callable[[K], None]) -> None:
        """`drop` is told of a key whose value is given up, before another is made."""
        self._most, self._make, self._drop = most, make, drop
        self._held: OrderedDict[K, V] = OrderedDict()

    def __iter__(self) -> Iterator[K]:
        return iter(self._held)

    def get(self, key: K) -> V:
        """The value of `key`, which now counts as used last."""
        if key not in self._held:
            while len(self._held) >= self._most:
                self._drop(self._held.popitem(last=False)[0])
            self._held[key] = self._make(key)
        self._held.move_to_end(key)
        return self._held[key]
