"""`auto` in a batch: it begins plainly, rows learn from one another, and shadows share what they may cost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from benchmarks.auto_replay import arm
from tests.drafting.histories import rows_of

from glimpse.drafting.auto import PLAIN
from glimpse.drafting.drafter import Outcome
from glimpse.pacing.auto_batch import AGE, DOUBT, Common
from glimpse.pacing.auto_choice import ENTER, Chooser
from glimpse.pacing.auto_lookout import STRETCH, Lookout
from glimpse.pacing.auto_row import AutoRow
from glimpse.pacing.auto_shadow import Score, Shadow
from glimpse.pacing.pacer import Action

pytestmark = pytest.mark.usefixtures("still")
TEXT = [3, 4, 5, 6, 7, 8] * 6


def row(*names: str, current: str = PLAIN) -> AutoRow:
    return AutoRow(Chooser(current), {name: Shadow(Score(1.1)) for name in names})


def running(count: int):
    """`auto` with so many rows of one text, all taken in."""
    own, view = arm("auto", "two", 1), rows_of(*[TEXT] * count)
    own.drafter.admit(view)
    own.pacer.admit(view)
    return own, view


def step(own, view, token: int) -> list[Action]:
    """One step in which every row writes `token` and nothing is verified; what each row was told to do."""
    decided = own.pacer.decide(view, [8] * len(view))
    own.pacer.observe(view, [Outcome(slot, 0, 0, [token]) for slot in view.slots])
    for slot in view.slots:
        view.rows.commit(slot, [token], int(view.rows.committed_len[slot]))
    return list(decided.actions)


def test_what_rows_saw_becomes_the_guess_of_all():
    rows = {0: row("lookup"), 1: row("lookup")}
    common = Common(rows)
    rows[0].shadows["lookup"].score.add(32, 16.0)
    common.tell(rows[1])
    assert rows[1].shadows["lookup"].score.speed == pytest.approx((DOUBT + 32) / (DOUBT + 16))
    rows[0].shadows["lookup"].score.add(32, 64.0)
    common.tell(rows[1])
    assert rows[1].shadows["lookup"].score.speed > 1, "the record is a few steps old"
    for _ in range(AGE):
        common.step()
    common.tell(rows[1])
    assert rows[1].shadows["lookup"].score.speed < 1


def test_one_lucky_round_of_one_row_is_no_reason_for_the_others():
    rows = {0: row("lookup"), 1: row("lookup")}
    rows[0].shadows["lookup"].score.add(3, 1.5)
    Common(rows).tell(rows[1])
    assert 1 < rows[1].shadows["lookup"].score.speed < ENTER


def test_a_guess_that_is_told_does_not_outweigh_what_the_row_saw_itself():
    own = row("lookup")
    score = own.shadows["lookup"].score
    score.add(200, 400.0)
    score.guess = 1.5
    assert score.speed == pytest.approx(0.5, abs=0.02)


def test_a_request_alone_begins_with_a_drafter_and_a_batch_does_not(monkeypatch):
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)
    alone, view = running(1)
    step(alone, view, 3)
    assert alone.drafter.chosen(0) != PLAIN
    batch, views = running(3)
    assert step(batch, views, 3) == [Action.PLAIN] * 3
    assert [batch.drafter.chosen(slot) for slot in views.slots] == [PLAIN] * 3


def test_who_was_alone_when_it_came_and_is_not_when_it_decodes_begins_plainly(monkeypatch):
    """An engine takes in one request after the other before the first step."""
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)
    own, view = arm("auto", "two", 1), rows_of(TEXT, TEXT)
    for only in ([True, False], [False, True]):
        own.drafter.admit(view.pick(only))
        own.pacer.admit(view.pick(only))
    assert own.drafter.chosen(0) != PLAIN
    step(own, view, 3)
    assert [own.drafter.chosen(slot) for slot in view.slots] == [PLAIN] * 2
    assert not own.drafter.wants_successors, "the sentinel alone watches, which recycles no logits"


def test_a_batch_whose_shadows_see_that_drafts_pay_begins_to_draft(monkeypatch):
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)
    own, view = running(3)
    for place in range(60):
        step(own, view, TEXT[place % 6])
    assert all(own.drafter.chosen(slot) != PLAIN for slot in view.slots)


def test_rows_follow_by_turns_out_of_one_purse(monkeypatch):
    """By this clock a stretch takes all the credit there is, so the other row waits until some is earned."""
    seconds = iter(range(10**6))
    clock = SimpleNamespace(perf_counter=lambda: 4e-3 * next(seconds))
    monkeypatch.setattr("glimpse.pacing.auto_lookout.time", clock)
    own, view = running(2)
    rows = {slot: row("suffix", "lookup") for slot in view.slots}
    lookout = Lookout()
    lookout.wake(own.drafter, view, 0, rows)
    assert rows[0].awake == STRETCH
    lookout.wake(own.drafter, view, 1, rows)
    assert not rows[1].awake
    lookout.earn(100.0)
    rows[0].awake = 0
    lookout.wake(own.drafter, view, 0, rows)
    assert not rows[0].awake, "it is the other row's turn"
    lookout.wake(own.drafter, view, 1, rows)
    assert rows[1].awake == STRETCH
    assert lookout.looked > 0
