"""A64, A65: what speculation costs where it yields nothing: no forward more, and little time on the host.

Times are processor times of this thread, the best of several, so that other work on the machine does not count.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
import torch
from tests.cases.doubles import Empty, with_parts
from tests.cases.mini import mini
from tests.cases.models import GREEDY, prompt

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Outcome
from glimpse.drafting.lookup import LookupDrafter
from glimpse.engine import engine as loop

BATCHES = (1, 4, 16, 64)
MOST_OVERHEAD = 1.35
"""A drafter that never drafts may cost a step of a tiny model, which is nearly all host work, this much at most."""
MOST_SECONDS = 0.002
"""One draft of LOOKUP, of the tens of milliseconds that a step of a small model takes on a processor."""


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    return mini(tmp_path_factory.mktemp("speed"), rows=64, max_context=64)


def off(llm):
    """Speculation off in each way there is, and a drafter that never drafts."""
    yield llm
    yield llm.variant(drafter="lookup", draft_tokens=0)
    yield with_parts(llm, Empty(), draft_tokens=4)


@pytest.mark.parametrize("batch", BATCHES)
def test_a64_off_and_empty_run_the_forwards_of_plain_decoding(llm, monkeypatch, batch):
    """Step for step the same rows of the same number of tokens."""
    whole, found = loop.forward, []

    def forward(decoder, pool, rows, specs):
        found[-1].append([(spec.slot, spec.count, spec.outputs, spec.importance) for spec in specs])
        return whole(decoder, pool, rows, specs)

    monkeypatch.setattr(loop, "forward", forward)
    prompts = [prompt(5, index) for index in range(batch)]
    for variant in off(llm):
        found.append([])
        variant.generate(prompts, replace(GREEDY, max_tokens=6))
    assert len(found[0]) == 6
    assert found[1] == found[2] == found[0]


@pytest.mark.parametrize("batch", [1, 16])
def test_a64_empty_costs_little(llm, batch):
    prompts, params = [prompt(10, index) for index in range(batch)], replace(GREEDY, max_tokens=12)
    variants = list(off(llm))

    def seconds(variant):
        begun = time.thread_time()
        variant.generate(prompts, params)
        return time.thread_time() - begun

    best = [min(seconds(variant) for _ in range(7)) for variant in variants]
    assert best[1] <= MOST_OVERHEAD * best[0]
    assert best[2] <= MOST_OVERHEAD * best[0]


def drafting_time(length: int, longest: int, ids: list[int]) -> tuple[float, int]:
    """The processor time of one draft and its bookkeeping behind `length` tokens, and how much was drafted."""
    rows = Rows(1, length + 64, 8)
    pool = PagePool(CacheShape(1, 1, 2), 1, 16, torch.float32)
    rows.open(0, ids[:length], Sequence(pool), length + 64)
    drafter, view, times, drafted = LookupDrafter(1, longest), RowView(rows, (0,)), [], 0
    drafter.admit(view)
    for token in random.Random(length).choices(ids, k=40):
        begun = time.thread_time()
        drafted += len(drafter.plan(view, [8]).tokens)
        drafter.absorb(view, [Outcome(0, 0, 0, [token])])
        times.append(time.thread_time() - begun)
        rows.commit(0, [token], length)
    return sorted(times)[20], drafted


@pytest.mark.parametrize("longest", [4, 64])
@pytest.mark.parametrize("kind", ["few matches", "many matches"])
def test_a65_a_draft_costs_the_same_after_any_history(longest, kind):
    """1k, 8k, 64k tokens, matches of up to 4 and 64; low-match text, and one whose n-grams are everywhere."""
    draw = random.Random(kind)
    ids = [draw.randrange(49_152 if kind == "few matches" else 3) for _ in range(65_536)]
    times = {length: drafting_time(length, longest, ids) for length in (1_000, 8_000, 64_000)}
    assert max(seconds for seconds, _ in times.values()) < MOST_SECONDS
    assert times[64_000][0] < 4 * times[1_000][0] + 1e-4
    assert kind == "few matches" or min(drafted for _, drafted in times.values()) == 320
