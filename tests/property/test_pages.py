"""Pages that are free, or another's, are never read: NaN in them changes nothing. A read of them would be seen."""

from __future__ import annotations

import pytest
import torch
from tests.doubles import Noisy, with_parts
from tests.property.mixes import Mix, drive
from tests.property.models import SHAPES, plain
from tests.property.poison import poisoned

from glimpse.cache.sequence import Sequence

OPTIONS = {"max_tokens": 20, "temperature": 0.8}


def mix_of(seed: int) -> Mix:
    """Four requests over three rows, whose drafts come and go over the ends of pages."""
    jobs = tuple((length, {**OPTIONS, "seed": length}) for length in (17, 40, 5, 33))
    return Mix(SHAPES[3], jobs, "noisy", "coupled", "full", False, seed, 2, 99, 0.0)


def run(seed: int) -> tuple[list[tuple[int, ...]], list]:
    mix = mix_of(seed)
    llm, jobs = plain(mix.shape), mix.requests()
    right = [llm.generate([ids], params)[0].token_ids for ids, params in jobs]
    texts = [(ids, out) for (ids, _), out in zip(jobs, right, strict=True)]
    fast = with_parts(llm, Noisy(texts, 0.5), draft_tokens=9)
    with poisoned(llm.loaded.pool):
        return right, drive(fast, mix)


def test_nothing_is_read_of_pages_that_are_free_or_anothers():
    right, requests = run(3)
    assert [request.error for request in requests] == [None] * len(right)
    assert [tuple(request.committer.token_ids) for request in requests] == right
    assert sum(request.speculation.drafted - request.speculation.accepted for request in requests) > 20


@pytest.mark.parametrize("place", ["a free page", "what was rolled back"])
def test_a_read_of_either_would_end_the_request(place, monkeypatch):
    """Teeth: rows that read a wrong slot in the place of their first one meet NaN."""
    extents = Sequence.extents

    def wrong(self, start, stop):
        (first, count), *rest = extents(self, start, stop)
        free = self.pool.pages * self.pool.page_size - 1
        behind = int(self.slots_of(torch.tensor(stop))) if stop < self.capacity else first
        other = free if place == "a free page" else behind
        return [(other, 1), (first + 1, count - 1), *rest] if count > 1 else [(first, count), *rest]

    mix = mix_of(3)
    llm = plain(mix.shape)
    pool, texts = llm.loaded.pool, [(ids, [9] * 20) for ids, _ in mix.requests()]
    fast = with_parts(llm, Noisy(texts, 0.5), draft_tokens=9)
    monkeypatch.setattr(Sequence, "extents", wrong)
    with poisoned(pool):
        pool.release(pool.allocate(pool.pages, 0))
        requests = drive(fast, mix)
    assert any(request.error for request in requests)
