"""When a batch whose drafts the host makes rests: by what its steps brought and took."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from glimpse.engine.device.asking import BEGIN, FIRST, KNOWN, LAST, LOOK, MOST_SHARE, SHARE, TRIES, Asking
from glimpse.engine.device.texts import ENOUGH, SEEN

ROWS = (0, 1)


class At:
    """A mark."""

    def __init__(self, time):
        self.time = time

    def since(self, earlier):
        return self.time - earlier.time


def seats(rows):
    """Of requests with these numbers."""
    return [SimpleNamespace(request=SimpleNamespace(arrival=row)) for row in rows]


def launched(rows, counts, now, asked, fresh=False, unread=(), late=False, drafts=False, verifies=True):
    """A step that has been read."""
    return SimpleNamespace(
        seats=seats(rows), letter=SimpleNamespace(counts=np.array(counts)), timed=[SimpleNamespace(end=At(now))],
        ran=SimpleNamespace(fresh=fresh), asked=asked, unread=frozenset(unread), drafts=drafts,
        verifies=verifies, late=late,
    )  # fmt: skip


class Device:
    """Steps that take what they are said to take; each is read before the next is launched."""

    def __init__(self, *, drafted, plain=1.0, tokens=4):
        self.asking, self.now = Asking(), 0.0
        self.seconds, self.tokens = {True: drafted, False: plain}, {True: tokens, False: 2}

    def step(self, rows=ROWS):
        asked = self.asking.asks(rows)
        self.now += self.seconds[asked]
        mean, more = divmod(self.tokens[asked], len(rows))
        counts = [mean + (row < more) for row in range(len(rows))] + [9]  # what stands behind is nobody's
        self.asking.learn(launched(rows, counts, self.now, asked))
        return asked

    def steps(self, count, rows=ROWS):
        return "".join("a" if self.step(rows) else "." for _ in range(count))


def test_drafts_that_pay_are_asked_for_at_every_step():
    found = Device(drafted=1.5).steps(200)
    assert found == "a" * BEGIN + "." * LOOK + "a" * (200 - BEGIN - LOOK)


def test_drafts_that_do_not_pay_are_asked_for_ever_more_seldom():
    found = Device(drafted=2.5, tokens=2).steps(3000)
    rests = [len(rest) for rest in found.split("a") if rest]
    assert found.startswith("a" * BEGIN + ".")
    first = rests[0] - LOOK  # the plain steps that say what one takes come first
    assert first == pytest.approx(TRIES * 1.5 / MOST_SHARE, rel=0.15)
    assert rests[1] == 2 * first
    assert rests[-2] == pytest.approx(TRIES * 1.5 / SHARE, rel=0.1)
    assert max(map(len, Device(drafted=9.0, tokens=2).steps(4000).split("a"))) == LAST


def test_rests_are_short_where_asking_costs_little():
    """A step with drafts that bring nothing takes 1.1 plain steps: then two in twenty cost a hundredth."""
    found = Device(drafted=1.1, tokens=2).steps(400)
    rests = [len(rest) for rest in found.split("a") if rest]
    assert rests[1:4] == [FIRST, 2 * FIRST, 4 * FIRST]
    assert max(rests) == rests[-2] == int(TRIES * 0.1 / SHARE + 1e-6)


def test_drafts_are_asked_for_again_once_they_pay():
    device = Device(drafted=3.0)
    device.steps(300)
    device.seconds[True] = 0.5
    assert device.steps(1000).endswith("a" * 50), "after three tries"


def test_a_few_steps_that_brought_nothing_are_no_reason_to_rest():
    """Drafts that bring a row 1 token in three steps of four and 5 in the fourth, at 1.3 plain steps each."""
    device = Device(drafted=1.3, tokens=1)
    device.tokens[False] = 1
    found = ""
    for place in range(200):
        device.tokens[True] = 5 if place % 4 == 3 else 1
        found += "a" if device.step((7,)) else "."
    assert found == "a" * BEGIN + "." * LOOK + "a" * (200 - BEGIN - LOOK)


class Traffic:
    """Texts of so many tokens, of which so many are written at a time; how much drafts bring each is drawn by `mean`
    (accepted tokens a step). A step with drafts takes `price` plain steps."""

    def __init__(self, price: float, mean: Callable[[random.Random], float], *, rows: int = 1, tokens: int = 128):
        self.draw, self.price, self.mean = random.Random(3), price, mean
        self.device, self.texts, self.fewest, self.most = Device(drafted=price), 0, rows // 2 + 1, rows
        self.tokens, self.running = tokens, dict[int, list]()
        self.steps: dict[int, str] = {}
        """Of each text, by its number: which of its steps were asked for."""

    def run(self, texts: int) -> float:
        """Speed over plain decoding while so many texts end."""
        begun, last, written = self.device.now, self.texts + texts, 0.0
        while self.texts < last:
            # Requests come when they like.
            while len(self.running) < self.fewest or (len(self.running) < self.most and self.draw.random() < 0.05):
                number = max(self.steps, default=0) + 1
                self.running[number], self.steps[number] = [self.tokens, self.mean(self.draw)], ""
            written += self.step() / len(self.running)
            for number in [number for number, (left, _) in self.running.items() if left <= 0]:
                del self.running[number]
                self.texts += 1
        return written / (self.device.now - begun)

    def step(self) -> int:
        asking, rows, counts = self.device.asking, tuple(self.running), []
        asked = asking.asks(rows)
        for number, (left, mean) in self.running.items():
            count = 1
            while asked and count < left and self.draw.random() < mean / (1 + mean):
                count += 1
            counts.append(count)
            self.running[number][0] -= count
            self.steps[number] += "a" if asked else "."
        self.device.now += self.price if asked else 1.0
        asking.learn(launched(rows, counts, self.device.now, asked))
        return sum(counts)


@pytest.mark.parametrize("rows", [1, 12])
@pytest.mark.parametrize("price", [1.2, 1.8, 3.0])
def test_traffic_on_which_drafts_bring_nothing_costs_a_hundredth(rows, price):
    traffic = Traffic(price, lambda draw: 0.0, rows=rows)
    traffic.run(6 * rows)
    assert 0.98 < traffic.run(100) < 1.0, "and it is tried now and then"


@pytest.mark.parametrize("rows", [1, 12])
def test_traffic_on_which_drafts_pay_is_asked_for_at_once(rows):
    traffic = Traffic(1.8, lambda draw: draw.choice([2.0, 3.0, 6.0]), rows=rows)
    traffic.run(6 * rows)
    begun = max(traffic.steps)
    assert traffic.run(60) > 0.85 * (1 + 3.5) / 1.8 * (0.8 if rows == 1 else 1.0)  # those that write more write sooner
    late = [asked for number, asked in traffic.steps.items() if number > begun and asked]
    assert sum(asked[:4] == "aaaa" for asked in late) > 0.9 * len(late)


def test_a_text_unlike_those_before_it_is_found():
    traffic = Traffic(1.8, lambda draw: 0.2, tokens=2000)
    traffic.run(8)
    traffic.mean = lambda draw: 9.0
    number = max(traffic.steps) + 1
    while number not in traffic.steps:
        traffic.run(1)
    found = traffic.steps[number]
    assert found.index("a" * 20) < 200
    traffic.run(3)
    assert traffic.steps[max(traffic.steps)][:8] == "a" * 8, "and one such text is reason to hope for the next"


def test_rows_that_come_and_go_do_not_end_a_rest():
    traffic = Traffic(2.5, lambda draw: 0.1, rows=6)
    traffic.run(40)
    asking = traffic.device.asking
    while not asking.resting or asking._rest < 10:
        traffic.step()
    running = tuple(traffic.running)
    for rows in (running, running[1:], (*running[1:], 10_000)):
        assert asking.rests(rows)
        assert not asking.asks(rows)


def test_batches_of_another_size_are_begun_with_what_is_known_of_the_nearest():
    paid = Device(drafted=1.5)
    paid.steps(100)
    assert paid.steps(LOOK, tuple(range(8))) == "." * LOOK, "plain steps cost nothing"
    paid.tokens = {True: 16, False: 8}
    assert paid.steps(20, tuple(range(8))) == "a" * 20
    dear = Traffic(3.0, lambda draw: 0.0, rows=6)
    dear.run(50)
    asked = dear.device.steps(100, tuple(range(1000, 1040)))
    assert asked.count("a") <= TRIES


def test_it_says_what_it_expects_of_rows():
    asking = Asking()
    assert asking.speed((1, 2)) is None
    device = Device(drafted=1.5)
    device.steps(100)
    assert device.asking.speed(ROWS) == pytest.approx(4 / 2 / 1.5)
    assert device.asking.speed((7, 8)) == pytest.approx(3 / 1.5), "hoped for"
    for number in range(10, 10 + 2 * ENOUGH, 2):
        device.steps(SEEN, (number, number + 1))
    assert device.asking.speed((7, 8)) == pytest.approx(4 / 2 / 1.5)


def test_the_next_steps_ask_after_it_was_woken():
    device = Device(drafted=3.0)
    device.steps(100)
    while device.step():
        pass
    device.asking.wake(ROWS)
    assert device.steps(TRIES + 1) == "a" * TRIES + "."


@pytest.mark.parametrize("fresh", [True, False])
def test_steps_after_something_else_or_freshly_captured_say_nothing(fresh):
    asking = Asking()
    for time in (1.0, 2.0, 3.0):
        asked = asking.asks(ROWS)
        asking.learn(launched(ROWS, [1, 1], time, asked, fresh, late=not fresh))
    assert not asking._size(2).asked.tokens


def test_rounds_that_the_batch_drafts_for_itself_are_timed_by_themselves():
    """From step to step; a burst of drafts writes nothing, and the first step after the other way says nothing."""
    asking, now = Asking(), 0.0
    for _ in range(LOOK):
        now += 1.0
        asking.learn(launched(ROWS, [1, 1], now, asked=False))
    assert asking.own_speed(2) is None
    now += 90.0
    asking.learn(launched(ROWS, [1, 1], now, asked=False, drafts=True))
    assert not asking._size(2).own.times
    for _ in range(KNOWN):
        now += 2.0
        asking.learn(launched(ROWS, [3, 3], now, asked=False, drafts=True))
        now += 2.0
        asking.learn(launched(ROWS, [9, 9], now, asked=False, drafts=True, verifies=False))
    assert asking.own_speed(2) == pytest.approx((3 / 2) / 2)
    assert asking.own_speed(30) is None
    assert list(asking._size(2).plain.times) == [1.0] * KNOWN


def test_plain_steps_that_wrote_nothing_say_nothing_of_own_drafts():
    """Texts that end with their first token leave only steps launched ahead, after their ends."""
    asking, now = Asking(), 0.0
    for drafts in (False, True):
        for _ in range(LOOK):
            now += 1.0
            asking.learn(launched(ROWS[:1], [2 * drafts], now, asked=False, drafts=drafts))
    assert len(asking._size(1).own.times) > KNOWN
    assert asking.own_speed(1) is None


def test_a_drafter_that_raises_leaves_the_books_right():
    """Asked for, and never launched: the steps after it are still told apart."""
    device = Device(drafted=3.0)
    device.asking.asks(ROWS)
    found = device.steps(BEGIN + LOOK + FIRST)
    size = device.asking._size(2)
    assert found.startswith("a" * (BEGIN - 1) + ".")
    assert set(size.plain.tokens) == {2}
    assert set(size.asked.tokens) == {4}


def test_the_step_in_which_texts_are_read_is_no_price():
    """The first draft of a text takes its whole prompt; what later steps take is what counts."""
    device = Device(drafted=1.5)
    device.steps(BEGIN + LOOK + 2)
    for seconds in (500.0, 1.5):
        device.seconds[True] = seconds
        assert device.step((7, 8))
    assert max(device.asking._sizes[2].asked.times) == pytest.approx(1.5)
