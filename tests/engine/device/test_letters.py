"""What a report says of each device row reaches the request that sat there at the launch, and the host's row of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from glimpse.acceptance.exact import Coupled
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows
from glimpse.cache.sequence import Sequence
from glimpse.engine.commit import Committer
from glimpse.engine.device.graphs import Ran
from glimpse.engine.device.mail import Mail, Mark
from glimpse.engine.device.report import Report
from glimpse.engine.device.seats import Seat
from glimpse.engine.device.settle import DeviceSettler, Launched, Timed
from glimpse.engine.request import Request
from glimpse.pacing.costs import StepLoad
from glimpse.sampling import SamplingParams
from glimpse.speculation import Speculation

PROMPT, MOST = [5, 6, 7, 8], 3


class Texts:
    """A text stream without text."""

    def push(self, token):
        return ""

    def flush(self):
        return ""


class Quiet:
    """A pacer, a drafter and costs that hear without a word."""

    in_step, needs_forward = None, True

    def observe(self, *_):
        pass

    absorb = observe


def request() -> Request:
    committer = Committer(Texts(), max_tokens=30, context_room=30)
    speculation = Speculation("sparse", "fixed", "coupled")
    return Request(PROMPT, SamplingParams(seed=0).resolve({}), committer, speculation, 34, np.array(PROMPT))


def test_every_request_gets_its_own_rows_tokens():
    """Three device rows over other slots of the host; of the tokens reported, as many count as were committed."""
    rows, pool = Rows(4, 48, MOST), PagePool(CacheShape(1, 1, 8), 12, 16, torch.float32)
    seats = [Seat(request(), slot, Sequence(pool, 48)) for slot in (2, 0, 3)]
    for seat in seats:
        rows.open(seat.slot, PROMPT, seat.sequence, 34)
    report = Report.empty(4, MOST, "cpu")
    report.verdict.committed.copy_(torch.arange(100, 116).view(4, MOST + 1))
    report.verdict.counts[:3], report.verdict.judged[:3] = torch.tensor([1, 4, 2]), torch.tensor([3, 3, 2])
    letter, arrived = Mail(report).send()
    parts = SimpleNamespace(rows=rows, pacer=Quiet(), drafter=Quiet(), costs=Quiet(), acceptance=Coupled())
    timed = Timed(Mark(torch.device("cpu")), arrived, StepLoad(), 1)
    launched = Launched(tuple(seats), True, Ran(graph=True), 1, (timed,), letter, arrived, drafts=True)
    settler = DeviceSettler(parts, waits=False)
    settler.settle(launched)
    right = [[100], [104, 105, 106, 107], [108, 109]]
    assert [list(seat.request.committer.token_ids) for seat in seats] == right
    assert settler.untold
    assert [(made.request, made.accepted) for made in settler.tell()] == [
        (seat.request, accepted) for seat, accepted in zip(seats, (0, 3, 1), strict=True)
    ]
    assert not settler.untold
    for seat, own in zip(seats, right, strict=True):
        assert rows.tokens[seat.slot, : 4 + len(own)].tolist() == PROMPT + own
        assert (rows.committed_len[seat.slot], rows.verified_len[seat.slot]) == (4 + len(own), 3 + len(own))
    assert isinstance(arrived, Mark)
