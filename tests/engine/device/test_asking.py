"""When a batch whose drafts the host makes rests: by what its steps brought and took."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from glimpse.engine.device.asking import BEGIN, FIRST, KNOWN, LAST, TRIES, Asking

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
    found = Device(drafted=3.0).steps(400)
    begin = "a" * BEGIN + "." * (KNOWN + 1)
    assert found.startswith(begin + "." * FIRST + "a" * TRIES + "." * 2 * FIRST + "a" * TRIES)
    assert found[-200:].count("a") <= TRIES * (200 // LAST + 1)


def test_drafts_are_asked_for_again_once_they_pay():
    device = Device(drafted=3.0)
    device.steps(300)
    device.seconds[True] = 0.5
    assert device.steps(300).endswith("a" * 50)


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
    assert not asking._size(2).asked.seen


def test_a_drafter_that_raises_leaves_the_books_right():
    """Asked for, and never launched: the steps after it are still told apart."""
    device = Device(drafted=3.0)
    device.asking.asks(ROWS)
    found = device.steps(BEGIN + KNOWN + FIRST + 1)
    size = device.asking._size(2)
    assert found.startswith("a" * (BEGIN - 1) + ".")
    assert {tokens for tokens, _ in size.plain.seen} == {2}
    assert {tokens for tokens, _ in size.asked.seen} == {4}
