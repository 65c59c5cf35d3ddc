"""When a batch asks whose rests shadows watch: by what they foretell, with tries for prices alone."""

from __future__ import annotations

from statistics import fmean

import pytest

from engine.device.test_asking import Device, Traffic, launched
from glimpse.engine.device.asking import BEGIN, KNOWN, LOOK, TRIES, Asking
from glimpse.engine.device.between import SETTLED
from glimpse.engine.device.texts import ENOUGH, SEEN
from glimpse.engine.device.watched import CLEAR, FAIR_LONGEST, FAIR_SHARE, LONGEST, SHARE, WatchedAsking


def watched(**more) -> Device:
    device = Device(**more)
    device.asking = WatchedAsking()
    return device


def test_drafts_that_pay_are_asked_for_at_every_step():
    found = watched(drafted=1.5).steps(100)
    assert found == "a" * BEGIN + "." * LOOK + "a" * (100 - BEGIN - LOOK)


@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("drafted", [1.2, 2.5, 9.0])
def test_tries_cost_a_share_of_the_time_and_no_more(drafted, fair):
    """And of a server's less."""
    device, share, longest = watched(drafted=drafted, tokens=2), SHARE, LONGEST
    if fair:
        device.asking.fair, share, longest = True, FAIR_SHARE, FAIR_LONGEST
    device.steps(BEGIN + LOOK + 1)
    begun = device.now
    found = device.steps(40_000)
    lost = (drafted - 1) * found.count("a")
    assert 0 < lost <= 1.1 * share * (device.now - begun)
    rests = [len(rest) for rest in found.split("a") if rest]
    assert max(rests) <= longest


def rested(drafted=2.0) -> Device:
    """In the middle of a rest, of texts that drafts brought nothing, as those before them."""
    device = watched(drafted=drafted, tokens=2)
    for first in range(100, 100 + 4 * ENOUGH, 2):
        device.steps(BEGIN + LOOK + SEEN, (first, first + 1))
    device.steps(40)
    assert device.asking.resting
    return device


def test_texts_on_which_drafts_come_to_pay_are_asked_for_within_a_few_rounds():
    device, rounds = rested(), 0
    while device.asking.resting:
        for number in (0, 1):
            device.asking.foretold(number, 9, 10)
        rounds += 1
    assert rounds <= 5
    device.tokens[True] = 18
    assert device.steps(50) == "a" * 50


def test_a_text_that_repeats_itself_ends_a_rest_and_its_own_steps_begin_another():
    device = rested()
    device.asking.hinted({0: 0.5, 1: 0.0})
    assert device.asking.resting
    device.asking.hinted({0: 8.0, 1: 0.0})
    assert not device.asking.resting
    found = device.steps(100)
    assert found[:TRIES] == "a" * TRIES
    assert found.count("a") < 10, "steps bring nothing"
    device = rested()
    device.asking.hinted({0: 8.0, 1: 0.0})
    device.tokens[True] = 10
    assert device.steps(100) == "a" * 100


def test_rounds_that_bring_less_than_is_clear_end_no_rest():
    device = rested()
    for _ in range(2 * SEEN):
        for number in (0, 1):
            device.asking.foretold(number, 2, 2)
    assert device.asking.speed((0, 1)) == pytest.approx(1.0)
    assert CLEAR > 1.0
    assert device.asking.resting


def test_a_round_stands_for_the_steps_that_would_have_been_made_meanwhile():
    """One that was looked at once in 32 tokens and would have written all of them is one step of a text; one that would
    have written a token stands for 32."""
    device = rested()
    for _ in range(SEEN // 2):
        device.asking.foretold(0, 32, 32)
        device.asking.foretold(0, 1, 32)
        device.asking.foretold(1, 1, 1)
    tokens, _ = device.asking._texts.tokens([0])
    assert tokens == pytest.approx(64 / 33)


def test_a_rest_does_not_end_while_it_is_not_known_what_plain_steps_take():
    device = watched(drafted=1.5)
    device.steps(BEGIN + 1)
    device.asking.foretold(0, 9, 9)
    assert device.steps(LOOK) == "." * (LOOK - 1) + "a"


def test_a_try_waits_for_texts_to_be_read_but_not_for_ever():
    device = rested()
    left = device.asking._rest
    assert device.steps(left + 5, (7, 8)) == "." * (left + 5), "it is due, and nothing is known of these"
    for number in (7, 8):
        device.asking.foretold(number, 1, 1)
    assert device.steps(3, (7, 8)) == ".aa", "put off by a step at a time"
    device = rested()
    left = device.asking._rest
    put_off = device.asking._late
    assert device.steps(left + put_off + 2, (7, 8)) == "." * (left + put_off) + "aa"


@pytest.mark.parametrize(("mean", "asks"), [(0.3, False), (1.1, False), (3.0, True)])
def test_new_texts_end_a_rest_only_where_those_before_them_paid_clearly(mean, asks):
    """Of a step that takes two."""
    traffic = Traffic(2.0, lambda draw: mean, rows=4)
    traffic.device.asking = WatchedAsking()
    traffic.run(30)
    before = max(traffic.steps)
    traffic.run(200)
    begun = [steps for number, steps in traffic.steps.items() if number > before and steps]
    assert (sum(steps[:8].count("a") for steps in begun) > 4 * len(begun)) is asks


@pytest.mark.parametrize("kind", [Asking, WatchedAsking])
def test_steps_beside_rows_that_come_and_go_are_no_price(kind):
    """A server of short texts: where rows change, the plain steps then take four times as long as others, and where
    drafts are asked for at all other steps there are no others. A step with drafts takes 2.7 and writes 4 tokens of the
    first texts, and 2 of those that come then."""
    asking, now, shares = kind(), 0.0, []
    for text in range(400):
        rows, tokens, asked = (text,), 4 if text < 200 else 2, []
        for step in range(60):
            drafts = step >= SETTLED and asking.asks(rows)
            if step < SETTLED:
                asking.skip()
            now += 4.0 if step < SETTLED else 2.7 if drafts else 1.0
            asking.learn(launched(rows, [tokens if drafts else 1], now, drafts))
            asked.append(drafts)
        shares.append(sum(asked) / len(asked))
    assert asking.plain_seconds(1) == pytest.approx(1.0)
    assert min(shares[100:200]) > 0.9
    assert fmean(shares[300:]) < 0.07


def test_texts_that_were_not_read_teach_nothing():
    asking = WatchedAsking()
    asking.asks((1, 2))
    asking.learn(launched((1, 2), [5, 1], 1.0, True, unread=(2,)))
    assert asking._texts.knows(1)
    assert not asking._texts.knows(2)
    asking.asks((1, 2))
    asking.learn(launched((1, 2), [5, 1], 2.0, True, unread=(2,)))
    assert not asking._size(2).asked.times, "and reading takes longer than a step with drafts does"


@pytest.mark.parametrize("read", [0.0, 40.0])
def test_a_rest_is_as_long_as_its_tries_were_dear_with_the_texts_that_were_read_for_them(read):
    """Reading is in no price, for a text is read once; where each try meets new texts it is what tries cost."""
    asking, now = WatchedAsking(), 0.0

    def step(asked, counts, seconds, numbers, unread=()):
        nonlocal now
        now += seconds
        asking.learn(launched(numbers, counts, now, asked, unread=unread))

    for _ in range(LOOK):
        step(False, [1, 1], 1.0, (1, 2))
    for _ in range(TRIES + 1):
        step(True, [1, 1], 1.5, (1, 2))
    step(True, [2, 2], 2.0 + read, (1, 2), unread=(1, 2) if read else ())
    assert asking._size(2).price == pytest.approx(1.5)
    asking._rows, size = (1, 2), asking._size(2)
    lost = (TRIES + 1) * 0.5 + read  # the last one wrote as much as it took, but for what was read
    rest = asking._pause(size, 0.25)
    assert rest == min(LONGEST, int(max(TRIES * 0.5, lost) / SHARE))
    for number in (1, 2) * SEEN:
        asking._texts.learn(number, 1)
    asking._decide(size)
    assert asking._rest == rest
    assert asking._lost == 0.0, "the next rest is that of the next tries"


def test_what_drafts_lost_before_they_paid_lengthens_no_rest():
    asking = WatchedAsking()
    asking._lost, asking._rows, size = 90.0, (1, 2), asking._size(2)
    for _ in range(KNOWN):
        size.plain.add(2, 1.0)
        size.asked.add(6, 1.5)
    for number in (1, 2) * SEEN:
        asking._texts.learn(number, 3)
    asking._decide(size)
    assert (asking._rest, asking._lost) == (0, 0.0)
