"""Any model, cache, mix of requests, draft and pacing: each request as if alone and plain, and nothing left over."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from tests.property.mixes import MIXES, drafting, drive
from tests.property.models import ROWS, plain
from tests.property.poison import poisoned

_PLAIN = {}


def plainly(llm, shape, ids, params) -> tuple[int, ...]:
    key = (shape, tuple(ids), repr(params))
    if key not in _PLAIN:
        _PLAIN[key] = llm.generate([ids], params)[0].token_ids
    return _PLAIN[key]


@settings(
    max_examples=120, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(mix=MIXES)
def test_every_request_is_as_if_alone_and_plain(mix):
    """Requests join while others run; one may be cancelled, some are put back; all that is nobody's holds NaN."""
    llm = plain(mix.shape)
    pool, jobs = llm.loaded.pool, mix.requests()
    right = [plainly(llm, mix.shape, ids, params) for ids, params in jobs]
    fast = drafting(llm, mix, list({tuple(ids): out for (ids, _), out in zip(jobs, right, strict=True)}.items()))
    with poisoned(pool):
        requests = drive(fast, mix)
    for index, (request, expected) in enumerate(zip(requests, right, strict=True)):
        assert request.error is None
        got = tuple(request.committer.token_ids)
        cancelled = index == 0 and request.committer.finish_reason == "abort"
        assert got == (expected[: len(got)] if cancelled else expected)
        assert 0 <= request.speculation.accepted <= request.speculation.drafted
        if request.params.logprobs is not None:
            assert [entry.token_id for entry in request.logprobs] == list(got)
    engine = fast._engine
    assert (pool.free_pages, pool.promised, int(pool._wished.sum())) == (pool.pages, 0, 0)
    assert len(engine.parts.rows.free_slots()) == ROWS
    assert not engine.parts.pacer.admitted
    assert not any(engine.parts.sampler.params)
