"""Shadows: they count what real steps would have written, in short units, and leave nothing behind."""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.pacing.test_marginal_pacer import pacer

from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting.drafter import Outcome, Successors
from glimpse.drafting.racer.drafter import RacerDrafter, RacerSuffixDrafter
from glimpse.drafting.suffix.drafter import SuffixDrafter
from glimpse.engine.device.prompt_topk import PIECE
from glimpse.engine.device.shadows import HURRIED, PATIENCE, Shadows

PROMPT, LONGEST = 600, 1000


def text_of(seed: int, tokens: int = LONGEST) -> list[int]:
    """A text that repeats parts of itself, with errors now and then."""
    draw, text = random.Random(seed), list(range(3, 200))
    while len(text) < tokens:
        begin = draw.randrange(len(text) - 30)
        text += text[begin : begin + draw.randint(1, 30)]
        text.append(draw.randrange(3, 300))
    return text[:tokens]


@pytest.fixture(autouse=True)
def plain_steps_are_known(monkeypatch):
    """Of any length."""
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)


class Side:
    """Rows with a drafter and a pacer, as an engine has them."""

    def __init__(self, made=RacerDrafter, rows: int = 1, prompt: int = PROMPT, token: float = 0.01):
        self.texts = [text_of(seed) for seed in range(rows)]
        self.rows = Rows(rows, LONGEST + 64, 64)
        pool = PagePool(CacheShape(1, 1, 2), 4, 16, torch.float32)
        for slot, text in enumerate(self.texts):
            self.rows.open(slot, text[:prompt], Sequence(pool), LONGEST)
        self.view = RowView(self.rows, tuple(range(rows)))
        self.drafter, self.pacer = made(), pacer(token)
        self.drafter.admit(self.view)
        self.pacer.admit(self.view)

    def write(self, tokens: int, slot: int = 0, drafted: int = 0, path=()) -> None:
        begin = int(self.rows.committed_len[slot])
        outcome = Outcome(slot, drafted, tokens - 1, self.texts[slot][begin : begin + tokens], path=path)
        view = self.view.rows_of(slot)
        self.pacer.observe(view, [outcome])
        self.rows.commit(slot, outcome.tokens, begin)
        self.drafter.absorb(view, [outcome])

    def drafted(self) -> int:
        """A step with drafts of row 0; how many tokens it wrote."""
        rows, begin = self.rows, int(self.rows.committed_len[0])
        decided = self.pacer.decide(self.view, [min(64, LONGEST - begin - 1)])
        draft = self.drafter.plan(self.view, decided.room)
        rows.put_draft(0, draft.tokens, draft.parents, draft.confidence, draft.source)
        (count,) = self.pacer.trim(self.view)
        nodes = zip(rows.draft_parents[0, :count].tolist(), rows.tokens[0, begin : begin + count].tolist(), strict=True)
        nodes, path = list(nodes), []
        for token in self.texts[0][begin : LONGEST - 1]:
            pair = (path[-1] if path else -1, token)
            if pair not in nodes:
                break
            path.append(nodes.index(pair))
        self.write(len(path) + 1, drafted=count, path=path)
        return len(path) + 1


class Watched(Side):
    """The same, resting under shadows."""

    def __init__(self, *args, topk=None, **more):
        super().__init__(*args, **more)
        self.told: list[tuple[int, int, int]] = []
        self.shadows = Shadows(self.rows, self.drafter, self.pacer, 63, topk, lambda *facts: self.told.append(facts))
        self.seats = [
            SimpleNamespace(slot=slot, request=SimpleNamespace(arrival=70 + slot)) for slot in self.view.slots
        ]

    def step(self, spare: bool = True) -> None:
        self.shadows.step(self.seats, 1.0 if spare else 0.0)

    def ready(self) -> None:
        """All rows are read and have a round."""
        for _ in range(8 * len(self.seats)):
            self.step()
        assert len(self.shadows._rounds) == len(self.seats)


@pytest.mark.parametrize("made", [RacerDrafter, SuffixDrafter, RacerSuffixDrafter])
def test_it_counts_what_steps_with_drafts_would_have_written(made):
    """Round after round, with what pacer and source learn of each: every round is judged by all that followed it."""
    real, shadow = Side(made), Watched(made)
    known = Successors(torch.arange(3, 60), torch.arange(4, 61)[:, None], torch.full((57, 1), 0.5))
    if made is not SuffixDrafter:
        real.drafter.recycle(0, known)
        shadow.drafter.recycle(0, known)
    shadow.ready()
    while int(real.rows.committed_len[0]) < LONGEST - 2:
        count = real.drafted()
        for _ in range(count):
            shadow.write(1)
        shadow.step()
        if int(real.rows.committed_len[0]) < LONGEST - 2:
            assert shadow.told.pop() == (70, count, count)
            assert not shadow.told
    assert np.array_equal(real.pacer.trust_of(0)._right, shadow.pacer.trust_of(0)._right)


def test_some_rounds_are_long_and_some_are_not():
    """So that the test above compares something."""
    real = Side()
    counts = []
    while int(real.rows.committed_len[0]) < LONGEST - 2:
        counts.append(real.drafted())
    assert min(counts) == 1
    assert max(counts) > 8


def test_a_round_ends_when_the_text_has_left_the_tree_and_the_next_begins_where_the_text_ends():
    shadow = Watched()
    shadow.ready()
    begin = shadow.shadows._rounds[0].begin
    for _ in range(60):
        shadow.write(1)
        shadow.step()
    assert sum(passed for _, _, passed in shadow.told) == shadow.shadows._rounds[0].begin - begin
    assert all(0 <= passed - tokens <= 1 for _, tokens, passed in shadow.told)


def test_a_batch_that_grows_looks_at_smaller_trees_beside_the_large_ones_of_before(monkeypatch):
    monkeypatch.setattr("glimpse.drafting.tree.TOGETHER", 60)
    shadow = Watched(rows=3)
    shadow.drafter.priced = True
    shadow.shadows._turn = 2
    for _ in range(8):
        shadow.shadows.step(shadow.seats[:1], 1.0)
    assert len(shadow.shadows._rounds[0].gains) > 20
    shadow.ready()
    assert all(len(made.gains) <= 20 for slot, made in shadow.shadows._rounds.items() if slot)


def test_other_threads_have_most_of_the_interpreter():
    """Where the engine is stepped by a thread of its own, as by a server's."""
    shadow, units = Watched(), []
    work = shadow.shadows._work
    shadow.shadows._work = lambda *given: (units.append(given), work(*given))

    def steps():
        for _ in range(PATIENCE):
            shadow.shadows._unit = 10.0
            shadow.shadows.step(shadow.seats, 100.0)

    other = threading.Thread(target=steps)
    other.start()
    other.join()
    assert len(units) == 1, "the next one is due in a hundred seconds"
    steps()
    assert len(units) == 1 + PATIENCE


def test_other_threads_hardly_wait_where_there_is_no_time_to_spare(monkeypatch):
    """A server of short steps, which the host is busy with: 12,800 of half a millisecond, and units of as long. Where
    the host is busy nine tenths of the time, a hundredth more makes an answer a tenth later."""
    shadow, units, now = Watched(), [], [0.0]
    monkeypatch.setattr("glimpse.engine.device.shadows.time", SimpleNamespace(perf_counter=lambda: now[0]))

    def work(*_):
        units.append(now[0])
        now[0] += 5e-4

    shadow.shadows._work, shadow.shadows._unit = work, 5e-4

    def steps():
        for _ in range(400 * PATIENCE):
            now[0] += 5e-4
            shadow.shadows.step(shadow.seats, 0.0)

    other = threading.Thread(target=steps)
    other.start()
    other.join()
    assert 0.5 * HURRIED < 5e-4 * len(units) / now[0] <= HURRIED
    units.clear()
    steps()
    assert len(units) == 400, "alone it is one in so many steps"


def test_a_long_text_is_read_in_pieces():
    shadow, read = Watched(prompt=3 * PIECE + 9), []
    reader = shadow.drafter.readers[0]
    for _ in range(5):
        before = reader.position
        shadow.step()
        read.append(reader.position - before)
    assert read == [PIECE, PIECE, PIECE, 9, 0]
    assert list(shadow.shadows._rounds) == [0]


class Late:
    """Successors of a prompt, in so many pieces."""

    def __init__(self, pieces):
        self.pieces, self.asked = pieces, 0

    def tell_piece(self, slot):
        self.asked += 1
        self.pieces -= self.pieces > 0
        return self.pieces > 0


def test_successors_of_prompts_are_told_first():
    topk = Late(4)
    shadow = Watched(topk=topk, prompt=10)
    for _ in range(3):
        shadow.step()
        assert not shadow.shadows._rounds
    shadow.step()
    assert topk.asked == 4
    assert shadow.shadows._rounds


def test_rows_take_turns_and_nothing_is_learned_of_those_that_were_not_read():
    shadow = Watched(rows=3, prompt=20)
    for _ in range(2):
        for slot in range(3):
            shadow.write(1, slot)
        shadow.step()
    assert len(shadow.shadows._rounds) == 2
    (left,) = set(range(3)) - set(shadow.shadows._rounds)
    assert shadow.drafter.readers[left].position == 0
    assert not shadow.told


def test_without_time_to_spare_a_unit_is_done_now_and_then():
    shadow = Watched(prompt=20)
    for _ in range(PATIENCE - 1):
        shadow.step(spare=False)
    assert shadow.drafter.readers[0].position == 0
    shadow.step(spare=False)
    assert shadow.drafter.readers[0].position == 20


def test_time_to_spare_is_what_the_host_waits_and_what_the_last_unit_took_of_it():
    """Units of 0.2 ms where the host waits 0.5 ms: it waits 0.3 with one in each step, and goes on; not where 0.3 was
    all that there was."""
    shadow = Watched(prompt=20)
    worked = []
    shadow.shadows._work = lambda *_: worked.append(True)
    for waited, took, right in (
        (0.5e-3, 0.2e-3, True),
        (0.3e-3, 0.2e-3, True),
        (0.15e-3, 0.2e-3, False),
        (0.3e-3, 0.0, False),
    ):
        worked.clear()
        shadow.shadows._unit = 0.2e-3
        shadow.shadows.step(shadow.seats, waited)
        assert bool(worked) is right
        shadow.shadows._took = took if worked else 0.0


def test_who_leaves_is_forgotten():
    shadow = Watched(rows=2, prompt=20)
    shadow.ready()
    shadow.shadows.leave(0)
    shadow.shadows.leave(0)
    for slot in range(2):
        for _ in range(40):
            shadow.write(1, slot)
    del shadow.seats[0]
    shadow.step()
    assert {number for number, _, _ in shadow.told} == {71}
    assert list(shadow.shadows._rounds) == [1]


def test_no_round_begins_where_there_is_no_room_or_no_plain_step_was_seen(monkeypatch):
    shadow = Watched()
    while int(shadow.rows.committed_len[0]) < LONGEST - 1:
        shadow.write(1)
    for _ in range(9):
        shadow.step()
    assert not shadow.shadows._rounds
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 1)
    unseen = Watched(prompt=20)
    for _ in range(3):
        unseen.step()
    assert not unseen.shadows._rounds


def test_a_step_with_drafts_in_between_is_judged_by_itself(monkeypatch):
    """A verified draft takes the looked-at one's place in the source; what followed the latter still counts."""
    shadow, learned = Watched(SuffixDrafter), []
    source = shadow.drafter.readers[0].source
    monkeypatch.setattr(source, "learn", lambda tokens: learned.append(list(tokens)))
    shadow.ready()
    shadow.write(1)
    assert learned == []
    count, begin = shadow.drafted(), int(shadow.rows.committed_len[0])
    assert learned == [shadow.texts[0][begin - count : begin]]
    while not shadow.told:
        shadow.write(1)
        shadow.step()
    assert shadow.told[0][0] == 70
    assert [1] * len(learned[1:]) == list(map(len, learned[1:])), "token by token, of a draft that is gone"


def test_nodes_are_priced_for_as_many_rows_as_run():
    """A token costs a step of many rows as much as a step of one, which brings less: of one row more nodes are kept."""
    kept = {}
    for rows in (1, 3, 12):
        shadow = Watched(rows=rows, token=0.05)
        shadow.pacer._meet(shadow.view)
        for _ in range(3):
            shadow.pacer._costs.observe(shadow.pacer._plain, 1 + 0.05 * rows)
        shadow.ready()
        kept[rows] = len(shadow.shadows._rounds[0].nodes)
    assert kept[1] > kept[3] > kept[12]
