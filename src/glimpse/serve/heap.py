"""What a server's garbage collector looks at: only what came since the server was made ready.

A full collection looks at every object there is, which are a quarter of a million once torch and a model are loaded,
and no thread runs meanwhile: 0.1 to 0.5 s in which nobody's text goes on, every ten seconds or so under load. What is
there when the server begins is there until it ends, so it is taken out of collections (`gc.freeze`).
"""

from __future__ import annotations

import gc


class Heap:
    """Of this process. Where the program has frozen objects itself, it is left to that."""

    def __init__(self) -> None:
        self._ours = gc.get_freeze_count() == 0

    def settle(self) -> None:
        """What is alive now is not looked at any more; what is not is freed, also of what was alive before."""
        if self._ours:
            gc.unfreeze()
            gc.collect()
            gc.freeze()

    def release(self) -> None:
        """All is looked at again."""
        if self._ours:
            gc.unfreeze()
