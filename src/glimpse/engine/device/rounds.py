"""Rounds of a synchronous batch on the device: draft gamma tokens, verify them, accept, choose the next recall sets."""

from __future__ import annotations

from functools import partial

from glimpse.cache.pool import PagePool
from glimpse.engine.device.core import Core
from glimpse.engine.device.core import dense_embedding as dense_embedding
from glimpse.engine.device.graphs import Graphs
from glimpse.engine.device.settings import Learn
from glimpse.engine.device.settings import RoundSettings as RoundSettings
from glimpse.engine.device.state import DeviceRecall, DeviceRows
from glimpse.engine.device.work import Work
from glimpse.model import Decoder


class DeviceRounds:
    """Runs the rows' steps as CUDA graphs; the host only reads what was committed."""

    def __init__(
        self,
        decoder: Decoder,
        pool: PagePool,
        rows: DeviceRows,
        recall: DeviceRecall,
        settings: RoundSettings,
        vocab: int,
    ) -> None:
        """`vocab`: ids below it may be picked (the tokenizer's size)."""
        self.rows, self.recall, self.settings = rows, recall, settings
        self._core = Core(decoder, pool, rows, recall, settings, vocab)
        self.forward, self.vocab = self._core.forward, vocab
        self._work: dict[int, Work] = {}
        self.graphs = Graphs(decoder.device, self._core.quiet)

    def begin(self) -> None:
        """Chooses the first recall sets from the scores that the prefill left in `recall.fresh`."""
        self._core.begin_all(Learn.ANEW)

    def plain(self) -> None:
        """One plain step of every active row."""
        self.graphs.run(("plain",), partial(self._made(1).verify, Learn.NOTHING))

    def draft(self, count: int) -> None:
        """Drafts `count` more tokens for every active row."""
        for _ in range(count):
            self.graphs.run(("draft",), self._made(1).draft)

    def verify(self, count: int, *, learn: bool = True) -> None:
        """Verifies the `count` tokens behind each row's last, and commits what is accepted and the target's own token.

        Without `learn` the recall sets stay as they are.
        """
        work, how = self._made(count + 1), Learn.ADD if learn else Learn.NOTHING

        def verify() -> None:
            self.rows.drafted.fill_(count)
            work.verify(how)

        self.graphs.run(("verify", count, learn), verify)

    def select(self) -> None:
        """Chooses the recall sets anew from the scores there are."""
        self._core.begin_all(Learn.ADD)

    def refresh(self) -> None:
        """Takes over new sampling settings and seeds of the rows."""
        for work in self._work.values():
            work.choose.refresh()

    def _made(self, queries: int) -> Work:
        """The steps of rows of `queries` tokens; their buffers must be there before a capture begins."""
        if queries not in self._work:
            self._work[queries] = Work(self._core, self.rows.size, queries)
        return self._work[queries]
