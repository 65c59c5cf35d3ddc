"""What a server's garbage collector looks at: only what came since the server was made ready.

A full collection looks at every object there is, which are a quarter of a million once torch and a model are loaded,
and no thread runs meanwhile: more than a tenth of a second in which nobody's text goes on (docs/server.md). What is
there when the server begins is there until it ends, so it is taken out of collections (`gc.freeze`).
"""

from __future__ import annotations

import gc
from typing import ClassVar
from weakref import WeakSet


class Heap:
    """Of this process, for one of its servers. Where the program has frozen objects itself, it is left to that."""

    _frozen: ClassVar[WeakSet[Heap]] = WeakSet()
    """Those of servers at work, which freeze and free for each other: what one froze may be what another wants gone."""

    def settle(self) -> None:
        """What is alive now is not looked at any more; what is not is freed, also of what was alive before."""
        if self._frozen or gc.get_freeze_count() == 0:
            self._frozen.add(self)
            gc.unfreeze()
            gc.collect()
            gc.freeze()

    def release(self) -> None:
        """All is looked at again, also for another server, until that settles the next time: what this one leaves
        behind is still alive, and would never be freed."""
        if self in self._frozen:
            self._frozen.remove(self)
            gc.unfreeze()
