"""Slow-Fast Inference through the engine, and its lossless sibling."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.selector import Selector
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Outcome
from glimpse.drafting.slowfast import SelectorSets, SlowFastDrafter
from glimpse.drafting.sparse import WINDOW
from glimpse.engine.watch import Did, attach
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.pacing.sentence_ends import sentence_ends
from glimpse.sampling import SamplingParams

IDS = [(37 * i) % 250 + 3 for i in range(90)]
PROMPTS = [IDS[:60], IDS[5:82], IDS[20:90]]
SAMPLED = SamplingParams(max_tokens=40, temperature=0.9, seed=4)
GREEDY = SamplingParams(max_tokens=40, temperature=0.0)
NARROW = RecallBudget(share=0.01, floor=24, sinks=4, recent=8)


def narrow(llm, **options):
    """A variant whose fast steps read 24 positions; the least that options allow is the window of 256."""
    other = llm.variant(drafter="slowfast", pacer=None, **options)
    other._engine.parts.drafter._budget = NARROW
    return other


def steps(llm, prompt, params):
    """What the row did, step after step, with its output."""
    did = []
    attach(llm._engine, lambda seen: did.extend(seen.did))
    out = llm.generate([prompt], params)[0]
    attach(llm._engine, None)
    return did, out


STATEFUL = SamplingParams(
    max_tokens=40, temperature=0.9, seed=4, frequency_penalty=1.5, bad_words=[[40, 41]], logit_bias={40: 5.0, 41: 5.0}
)


@pytest.mark.parametrize("params", [GREEDY, SAMPLED, STATEFUL], ids=["greedy", "sampled", "stateful"])
def test_where_fast_steps_read_everything_the_text_is_plain(tiny, params):
    """All 60 to 130 positions are within the recent window."""
    fast = tiny.variant(drafter="slowfast", pacer=None, lossy="slowfast", budget_floor=None)
    for mine, right in zip(fast.generate(PROMPTS, params), tiny.generate(PROMPTS, params), strict=True):
        assert mine.token_ids == right.token_ids
        assert mine.speculation.trusted > 20


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("pacer_of", ["slowfast", "sparse"])
def test_the_sibling_is_lossless(tiny, params, pacer_of):
    if pacer_of == "slowfast":
        fast = narrow(tiny, draft_tokens=6)
    else:
        fast = tiny.variant(drafter="sparse", pacer="boundary", draft_tokens=6, budget=0.9)
    for mine, right in zip(fast.generate(PROMPTS, params), tiny.generate(PROMPTS, params), strict=True):
        assert mine.token_ids == right.token_ids
        assert 0 < mine.speculation.accepted <= mine.speculation.drafted
    assert fast.settings["lossless"] is True


def test_slow_steps_come_at_sentence_ends_and_after_so_many(tiny):
    did, out = steps(narrow(tiny, lossy="slowfast", draft_tokens=5), PROMPTS[0], replace(SAMPLED, seed=5))
    ends, tokens = sentence_ends(tiny.tokenizer), list(out.token_ids)
    assert did[0] == Did.PREFILL
    since, expected = 0, [Did.PREFILL]
    for token in tokens[:-1]:
        slow = since == 5 or token in ends
        expected.append(Did.PLAIN if slow else Did.DRAFT)
        since = 0 if slow else since + 1
    expected[-1] = Did.PLAIN  # no draft has room behind the last token
    assert did == expected
    assert any(token in ends for token in tokens[:-1]), "the text has a boundary, or this shows little"


def test_the_text_is_another_and_says_so(tiny):
    fast = narrow(tiny, lossy="slowfast")
    outs, plain = fast.generate(PROMPTS, SAMPLED), tiny.generate(PROMPTS, SAMPLED)
    assert any(mine.token_ids != right.token_ids for mine, right in zip(outs, plain, strict=True))
    report = outs[0].to_json()
    assert report["speculation"]["lossy"] == "slowfast"
    assert report["speculation"]["lossless"] is False
    assert 20 < report["speculation"]["trusted"] < 40
    assert report["settings"]["lossy"] == "slowfast"
    assert report["settings"]["lossless"] is False
    assert report["settings"]["acceptance"] == "trust"
    assert report["settings"]["pacer"] == "boundary"


def test_a_row_does_not_depend_on_its_neighbours(tiny):
    fast = narrow(tiny, lossy="slowfast", draft_tokens=7)
    together = fast.generate(PROMPTS, SAMPLED)
    for prompt, out in zip(PROMPTS, together, strict=True):
        assert fast.generate([prompt], SAMPLED)[0].token_ids == out.token_ids


def test_fast_steps_read_the_set_of_the_last_slow_step(tiny):
    fast = narrow(tiny, lossy="slowfast")
    drafter, read = fast._engine.parts.drafter, []
    plan = drafter.plan

    def watched(rows, room):
        specs = plan(rows, room)
        read.extend((spec.recall, spec.start, spec.kv_read) for spec in specs)
        return specs

    drafter.plan = watched
    fast.generate([PROMPTS[2]], SamplingParams(max_tokens=8, temperature=0.9, seed=11, logit_bias={}))
    first = read[0][0]
    assert first.base == len(PROMPTS[2])
    assert len(first) == 24
    same = [entry for entry in read if entry[0] is first]
    assert [(start, kv) for _, start, kv in same] == [(70 + i, 24 + i + 1) for i in range(len(same))]


def test_a_set_is_of_the_last_queries_alone():
    """A slow step of the sibling may have verified more than are looked at; none counts from before it."""
    pool = PagePool(CacheShape(1, 1, 4), 8, 16, torch.float32)
    sets = SelectorSets(pool, Sequence(pool), RecallBudget(share=0.01, floor=4, sinks=1, recent=1), Selector())
    old, new = torch.zeros(1, 1, 20, 60), torch.zeros(1, 1, WINDOW, 60)
    old[..., [10, 11]] = 9.0
    new[..., [30, 31]] = 1.0
    sets.verified(old)
    sets.verified(torch.cat([old, new], 2))
    assert sets.positions(60).tolist() == [[[0, 30, 31, 59]]]


def test_a_set_holds_until_the_next_slow_step_whatever_was_committed_since():
    """Of what came behind it everything is read."""
    pool = PagePool(CacheShape(1, 1, 4), 8, 16, torch.float32)
    rows, drafter = Rows(1, 100, 4), SlowFastDrafter(pool, RecallBudget(share=0.01, floor=4, sinks=1, recent=1))
    sequence = Sequence(pool)
    sequence.reserve(100)
    rows.open(0, list(range(61)), sequence, 100)
    view = RowView(rows, (0,))
    drafter.admit(view)
    weights = torch.zeros(1, 1, 1, 60)
    weights[..., [30, 31]] = 1.0
    drafter.absorb(view, [Outcome(0, 0, 0, [7], weights)])
    rows.verified_len[0], rows.committed_len[0] = 63, 64
    (spec,) = drafter.plan(view, [1])
    assert (spec.start, spec.recall.base, spec.recall.positions.tolist()) == (63, 60, [[[0, 30, 31, 59]]])


def test_it_ends_where_it_is_told_to(tiny):
    fast = narrow(tiny, lossy="slowfast")
    whole = fast.generate([PROMPTS[0]], SAMPLED)[0]
    assert len(whole.token_ids) == 40
    stop = whole.token_ids[17]
    cut = fast.generate([PROMPTS[0]], SamplingParams(max_tokens=40, temperature=0.9, seed=4, stop_token_ids=[stop]))[0]
    assert cut.token_ids == whole.token_ids[: whole.token_ids.index(stop) + 1]
    assert cut.finish_reason == "stop"
    rows = fast._engine.parts.rows
    assert rows.free_slots() == list(range(rows.capacity))


def test_streams_token_by_token_with_logprobs(tiny):
    fast = narrow(tiny, lossy="slowfast")
    params = SamplingParams(max_tokens=20, temperature=0.9, seed=4, logprobs=2)
    chunks = list(fast.stream(PROMPTS[0], params))
    assert [len(chunk.token_ids) for chunk in chunks] == [1] * 20
    out = chunks[-1].output
    assert [entry.token_id for entry in out.logprobs] == list(out.token_ids)


def test_what_a_lossy_row_wrote_is_never_shared(tiny_folder):
    llm = LLM(tiny_folder, lossy="slowfast", max_batch_size=2, max_context=300, device="cpu")
    prompt = IDS[:40]
    out = llm.generate([prompt], SamplingParams(max_tokens=60, temperature=0.0))[0]
    longer = [*prompt, *out.token_ids, 9]
    assert len(llm.loaded.prefixes.find(longer)) * llm.loaded.pool.page_size <= len(prompt)


def test_a_preempted_row_goes_on(tiny):
    fast = narrow(tiny, lossy="slowfast")
    (request,) = fast._requests([PROMPTS[0]], SAMPLED)
    engine = fast._engine
    engine.add(request)
    for _ in range(12):
        engine.step()
    written = list(request.committer.token_ids)
    assert engine.preempt(request)
    while not request.finished:
        engine.step()
    assert list(request.committer.token_ids)[: len(written)] == written
    assert len(request.committer.token_ids) == 40


def test_the_drafter_is_brought_along_and_no_other_will_do(tiny_folder, tiny):
    llm = LLM(tiny_folder, lossy="slowfast", max_batch_size=1, device="cpu")
    assert (llm.settings["drafter"], llm.settings["budget_floor"], llm.settings["recent"]) == ("slowfast", 2308, 256)
    with pytest.raises(ArgumentError, match="lossy 'slowfast' goes with drafter 'slowfast' alone, not 'sparse'"):
        tiny.variant(drafter="sparse", pacer=None, lossy="slowfast")
    with pytest.raises(ArgumentError, match="lossy 'slowfast' goes with pacer 'boundary' alone, not 'entropy'"):
        tiny.variant(drafter="slowfast", pacer="entropy", lossy="slowfast")
    assert tiny.variant(drafter="slowfast", pacer=None).settings["pacer"] == "boundary"


def test_compare_sets_it_beside_plain_decoding(tiny):
    found = narrow(tiny, lossy="slowfast").compare(PROMPTS[0], SAMPLED)
    assert found.baseline.speculation.lossy is None
    assert found.baseline.speculation.lossless
    assert found.speculative.speculation.lossy == "slowfast"
    assert found.predicted_speedup is not None


def test_a_fast_step_that_gives_no_number_is_made_up_for_by_a_slow_one(tiny, monkeypatch):
    fast = tiny.variant(drafter="slowfast", pacer=None, lossy="slowfast", budget_floor=None)
    draw, turns = fast._engine._settler._book.extend, iter(range(1000))

    def extend(slots, logits):
        return draw(slots, logits * (torch.nan if next(turns) % 3 == 2 else 1.0))

    monkeypatch.setattr(fast._engine._settler._book, "extend", extend)
    did, out = steps(fast, PROMPTS[0], SAMPLED)
    assert out.token_ids == tiny.generate([PROMPTS[0]], SAMPLED)[0].token_ids
    broken = [place for place, what in enumerate(did) if what == Did.DRAFT][2::3]
    assert broken
    assert all(did[place + 1] == Did.PLAIN for place in broken)


@pytest.mark.parametrize("every", [1, 3])
def test_put_back_again_and_again_where_fast_steps_read_everything(tiny, every):
    """Rows in different phases; what was fast is read anew in full, which here is the same."""
    fast = tiny.variant(drafter="slowfast", pacer=None, lossy="slowfast", budget_floor=None, draft_tokens=4)
    right = [out.token_ids for out in tiny.generate(PROMPTS, SAMPLED)]
    requests = fast._requests(PROMPTS, SAMPLED)
    for request in requests:
        fast._engine.add(request)
    for turn in range(200):
        for _ in range(every):
            fast._engine.step()
        if not fast._engine.busy:
            break
        if turn < 15:
            fast._engine.preempt(requests[turn % 3])
    assert [tuple(request.committer.token_ids) for request in requests] == right
    assert sum(request.preempted for request in requests) > 5
