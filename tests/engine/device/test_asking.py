"""When a batch whose drafts the host makes rests: by what its steps brought and took."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from glimpse.engine.device.asking import BEGIN, FIRST, KNOWN, LAST, MOST_SHARE, SEEN, SHARE, TRIES, Asking

ROWS = (0, 1)


class At:
    """A mark."""

    def __init__(self, time):
        self.time = time

    def since(self, earlier):
        return self.time - earlier.time


class Device:
    """Steps that take what they are said to take; each is read before the next is launched."""

    def __init__(self, *, drafted, plain=1.0, tokens=4):
        self.asking, self.now = Asking(), 0.0
        self.seconds, self.tokens = {True: drafted, False: plain}, {True: tokens, False: 2}

    def step(self, rows=ROWS):
        asked = self.asking.asks(rows)
        self.now += self.seconds[asked]
        counts = np.array([self.tokens[asked], *[0] * (len(rows) - 1), 9])  # what stands behind is nobody's
        self.asking.learn(
            SimpleNamespace(
                seats=rows, letter=SimpleNamespace(counts=counts), timed=[SimpleNamespace(end=At(self.now))],
                ran=SimpleNamespace(fresh=False), asked=asked, drafts=False,
            )
        )  # fmt: skip
        return asked

    def steps(self, count, rows=ROWS):
        return "".join("a" if self.step(rows) else "." for _ in range(count))


def test_drafts_that_pay_are_asked_for_at_every_step():
    found = Device(drafted=1.5).steps(200)
    assert found == "a" * BEGIN + "." * (KNOWN + 1) + "a" * (200 - BEGIN - KNOWN - 1)


def test_drafts_that_do_not_pay_are_asked_for_ever_more_seldom():
    found = Device(drafted=2.5, tokens=2).steps(400)
    begin = "a" * BEGIN + "." * (KNOWN + 1)
    first = int(TRIES * 1.5 / MOST_SHARE)
    assert found.startswith(begin + "." * first + "a" * TRIES + "." * LAST + "a" * TRIES + "." * LAST)
    assert found[-200:].count("a") <= TRIES * (200 // LAST + 1)


def test_rests_are_short_where_asking_costs_little():
    """A step with drafts that bring nothing takes 1.1 plain steps: then two in twenty cost a hundredth."""
    found = Device(drafted=1.1, tokens=2).steps(400)
    rests = [len(rest) for rest in found.split("a") if rest]
    assert rests[0] == KNOWN + 1, "what a plain step takes"
    assert rests[1:4] == [FIRST, 2 * FIRST, 4 * FIRST]
    assert max(rests) == rests[-2] == int(TRIES * 0.1 / SHARE + 1e-6)
    assert found.rindex("." * (KNOWN + 1), 0, SEEN) == BEGIN


def test_drafts_are_asked_for_again_once_they_pay():
    device = Device(drafted=3.0)
    device.steps(300)
    device.seconds[True] = 0.5
    assert device.steps(300).endswith("a" * 50)


def test_a_few_steps_that_brought_nothing_are_no_reason_to_rest():
    """Drafts that bring a row 1 token in three steps of four and 5 in the fourth, at 1.3 plain steps each."""
    device = Device(drafted=1.3, tokens=1)
    device.tokens[False] = 1
    found = ""
    for place in range(200):
        device.tokens[True] = 5 if place % 4 == 3 else 1
        found += "a" if device.step((7,)) else "."
    assert found == "a" * BEGIN + "." * (KNOWN + 1) + "a" * (200 - BEGIN - KNOWN - 1)


def test_a_new_text_is_asked_for_at_once_and_what_drafts_brought_before_says_nothing_of_it():
    device = Device(drafted=1.2, tokens=2)
    device.steps(100)
    while device.step():
        pass
    assert device.asking.rests(ROWS)
    device.tokens[True] = 4
    assert device.steps(100, (2, 3)) == "a" * 100
    device.tokens[True] = 2
    found = device.steps(40, (4, 5))
    assert len(found[: found.index(".")]) < SEEN, "what steps take is known"


def test_other_rows_are_asked_at_once_and_batches_of_a_size_share_what_is_known():
    device = Device(drafted=3.0)
    device.steps(BEGIN + KNOWN + 2)
    assert device.asking.rests(ROWS)
    assert not device.asking.rests((0, 2))
    assert device.steps(TRIES + 1, (0, 1, 2)) == "a" * TRIES + "."  # three rows are of the size of two
    assert device.steps(BEGIN, tuple(range(8))) == "a" * BEGIN


@pytest.mark.parametrize("fresh", [True, False])
def test_steps_after_something_else_or_freshly_captured_say_nothing(fresh):
    asking = Asking()
    for time in (1.0, 2.0, 3.0):
        asked = asking.asks(ROWS)
        if not fresh:
            asking.interrupted()
        asking.learn(
            SimpleNamespace(
                seats=ROWS, letter=SimpleNamespace(counts=np.array([1, 1])), timed=[SimpleNamespace(end=At(time))],
                ran=SimpleNamespace(fresh=fresh), asked=asked, drafts=False,
            )
        )  # fmt: skip
    assert not asking._size(2).asked.tokens


def test_a_drafter_that_raises_leaves_the_books_right():
    """Asked for, and never launched: the steps after it are still told apart."""
    device = Device(drafted=3.0)
    device.asking.asks(ROWS)
    found = device.steps(BEGIN + KNOWN + FIRST + 1)
    size = device.asking._size(2)
    assert found.startswith("a" * (BEGIN - 1) + ".")
    assert set(size.plain.tokens) == {2}
    assert set(size.asked.tokens) == {4}
