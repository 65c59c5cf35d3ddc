"""The device code of Slow-Fast Inference's lossless sibling: drafts over the Selector's sets, verified at boundaries.

Mixed steps in which each row finds out for itself whether its newest token is a boundary. How many tokens the rows that
verify have, nobody knows at the launch: the step has room for so many, and rows that find none wait for the next.
"""

from __future__ import annotations

from dataclasses import replace

from glimpse.attention.triton.attention import Paged
from glimpse.attention.triton.trusting import bound, learned_at
from glimpse.engine.device.core import Core
from glimpse.engine.device.mixed import Mixed
from glimpse.engine.device.settings import Learn
from glimpse.errors import GlimpseError

ROOM = 2
"""Tokens of a step for each row, beside the longest verification: of the rows of a batch that have drafted k tokens,
one in k + 1 verifies k + 1."""


class BoundaryWork(Mixed):
    """Steps of the first `size` rows."""

    def __init__(self, core: Core, size: int, queries: int) -> None:
        """`queries`: of a row that does not verify. Raises GlimpseError where the rows keep no `TrustState`."""
        most = core.rows.most
        super().__init__(core, size, most + 1 + ROOM * size * queries, most + 1)
        if core.trust is None:
            raise GlimpseError("these rows have no boundaries; build them with a TrustState")
        self._trust, self._paged = core.trust, _for_few(core, size, most + 1)

    def renew(self) -> None:
        """Does nothing: these steps read the rows' own settings."""

    def draft(self) -> None:
        """Raises GlimpseError: rows that are to draft and others take the same step."""
        raise GlimpseError("rows that draft up to a boundary take the steps of those that verify; use verify")

    def verify(self, learn: Learn) -> None:
        """One step; who drafts and who verifies, the rows' tokens say."""
        rows, trust = self._rows, self._trust
        size = rows.size
        bound(
            rows.tokens, rows.length, rows.drafted, rows.active, rows.limit, trust.since[:size], trust.ends,
            trust.most, self._core.want[:size],
        )  # fmt: skip
        self.run(drafts=True, learns=True)

    def _choose(self) -> None:
        core, trust, verdict, size = self._core, self._trust, self._rows.report.verdict, self._rows.size
        learned_at(
            core.want[:size], verdict.counts, verdict.broken, *self._kept, trust.since[:size], trust.learned[:size],
            self._recall.base,
        )  # fmt: skip
        trust.choose(size)


def _for_few(core: Core, size: int, queries: int) -> Paged:
    """Attention of rows that may verify `queries` tokens, of which few verify at a time, and most of them few tokens.

    Rows are cut up as if each came in all its tiles. A tile without tokens returns at once, so that where only first
    tiles have any, pieces for a whole machine are for one tile of it: there are as many times more.
    """
    usual = core.paged(size, queries)
    config = replace(usual.config, waves=usual.config.waves * usual.tiles)
    return Paged(core.shape, size, queries, core.pool.page_size, core.decoder.device, config)
