"""How many texts may be under way: rows and a queue of limited length."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from glimpse.serve.errors import busy, refused

_LONGEST = 60
_SMOOTH = 0.1


class Gate:
    """Counts texts from their admission to their end. For one event loop."""

    def __init__(self, rows: int, waiting: int) -> None:
        self.rows, self.most = rows, rows + waiting
        self.active = 0
        self.draining = False
        """Whether the server takes nothing more."""
        self._seconds = 1.0

    def check(self, texts: int) -> None:
        """Raises ApiError (400) for more texts than there ever is room for."""
        if texts > self.most:
            raise refused("n", texts, f"prompts times n may be at most {self.most} on this server")

    @contextmanager
    def enter(self, texts: int) -> Iterator[None]:
        """Room for so many texts while the block runs.

        Raises ApiError: 400 for more than there ever is room for, 429 where there is none now, 503 when draining.
        """
        if self.draining:
            raise busy("the server is shutting down", self.retry_after, status=503)
        self.check(texts)
        if self.active + texts > self.most:
            raise busy(f"{self.active} texts are under way and {self.most} are the most", self.retry_after)
        self.active += texts
        try:
            yield
        finally:
            self.active -= texts

    def took(self, seconds: float) -> None:
        """A text has come to its end after so many seconds."""
        self._seconds += _SMOOTH * (seconds - self._seconds)

    @property
    def retry_after(self) -> int:
        """Whole seconds after which a row may be free: what a text takes lately, over the rows."""
        return min(_LONGEST, max(1, math.ceil(self._seconds / self.rows)))
