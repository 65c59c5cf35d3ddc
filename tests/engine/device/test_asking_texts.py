"""What drafts are thought to bring a text: as to those before it at first, then as its own steps say."""

from __future__ import annotations

import random

import pytest

from glimpse.engine.device.texts import ENOUGH, HOPED, LEAST, MOST, SEEN, Texts


def wrote(texts: Texts, number: int, *tokens: int) -> None:
    for count in tokens:
        texts.learn(number, count)


def ended(texts: Texts, means: list[float], steps: int = 20, seed: int = 1) -> None:
    """Texts of so many steps each, whose accepted tokens are geometric with these means."""
    draw = random.Random(seed)
    for number, mean in enumerate(means, 1000):
        for _ in range(steps):
            accepted = 0
            while draw.random() < mean / (1 + mean):
                accepted += 1
            texts.learn(number, 1 + accepted)
        texts.keep([])


def test_the_first_texts_are_hoped_for():
    texts = Texts()
    assert texts.tokens([7]) == (1 + HOPED, pytest.approx((HOPED * (1 + HOPED)) ** 0.5))
    ended(texts, [0.0] * (ENOUGH - 1))
    assert texts.guess == (HOPED, 1.0)


def test_a_new_text_is_thought_to_be_as_those_before():
    texts = Texts()
    ended(texts, [0.5] * 40)
    assert texts.tokens([1])[0] == pytest.approx(1.5, abs=0.1)
    ended(texts, [2.0] * 200)
    assert texts.tokens([1])[0] == pytest.approx(3.0, abs=0.3), "those long ago are forgotten"


def test_a_guess_is_worth_the_more_the_more_texts_are_alike():
    alike, unlike = Texts(), Texts()
    ended(alike, [1.0] * 60)
    ended(unlike, [0.0, 4.0] * 30)
    assert alike.guess[1] == pytest.approx(MOST, rel=0.6)
    assert LEAST <= unlike.guess[1] < 4
    for texts in (alike, unlike):
        wrote(texts, 1, *[1] * 4)
    assert unlike.tokens([1])[0] < alike.tokens([1])[0]
    assert unlike.tokens([2])[1] > alike.tokens([2])[1], "the error of a text that nothing is known of"


def test_after_enough_steps_its_last_ones_alone_count():
    texts = Texts()
    wrote(texts, 1, *[9] * SEEN, *[2] * SEEN)
    assert texts.tokens([1])[0] == pytest.approx(2.0)
    wrote(texts, 2, *[1] * SEEN)
    assert texts.tokens([2]) == (1.0, 0.0)


def test_errors_of_many_rows_cancel():
    texts = Texts()
    mean, error = texts.tokens([1])
    assert texts.tokens(range(16)) == (16 * mean, pytest.approx(4 * error))


def test_texts_that_have_ended_are_dropped_and_others_go_on():
    texts = Texts()
    wrote(texts, 1, 5, 5)
    wrote(texts, 2, 1, 1)
    before = texts.tokens([2])
    texts.keep([2])
    assert texts.tokens([2]) == before
    assert texts.tokens([1])[0] == 1 + HOPED
    assert set(texts._running) == {2}


def test_where_each_text_counts_one_that_gains_much_does_not_outweigh_those_that_wait():
    """Sixteen tokens for one of four is twice as many a text as one each, by their geometric mean."""
    texts = Texts()
    for number, tokens in enumerate([16, 1, 1, 1], 1):
        wrote(texts, number, *[tokens] * SEEN)
    assert texts.tokens([1, 2, 3, 4])[0] == pytest.approx(19.0)
    assert texts.tokens([1, 2, 3, 4], fair=True)[0] == pytest.approx(4 * 2.0)
    whole, fair = texts.tokens([1, 1]), texts.tokens([1, 1], fair=True)
    assert fair == pytest.approx(whole), "all alike: the same"


def test_a_hint_takes_the_place_of_what_others_were_like_until_its_own_steps_say_more():
    texts = Texts()
    ended(texts, [0.2] * 30)
    texts.hint(900, 8.0)
    assert not texts.knows(900)
    assert texts.tokens([900])[0] == pytest.approx(9.0)
    wrote(texts, 900, 1)
    assert 3.0 < texts.tokens([900])[0] < 7.0
    wrote(texts, 900, *[1] * SEEN)
    assert texts.tokens([900])[0] == pytest.approx(1.0)
    texts.hint(901, 0.1)
    assert texts.tokens([901])[0] == pytest.approx(1 + texts.guess[0]), "less than that is no news"


def test_a_text_that_was_only_hinted_at_teaches_nothing_of_others():
    texts = Texts()
    ended(texts, [0.2] * 30)
    before = texts.guess
    texts.hint(900, 8.0)
    texts.keep([])
    assert texts.guess == before
    assert texts.tokens([900])[0] == pytest.approx(1 + before[0])


def test_steps_of_before_say_nothing_once_a_text_has_come_to_repeat_itself():
    texts = Texts()
    wrote(texts, 900, *[1] * 2 * SEEN)
    assert texts.tokens([900])[0] == pytest.approx(1.0)
    texts.hint(900, 8.0)
    assert texts.tokens([900])[0] == pytest.approx(9.0)
    texts.hint(900, 12.0)
    assert texts.tokens([900])[0] == pytest.approx(13.0), "as long as nobody has tried"
    wrote(texts, 900, *[20] * SEEN)
    assert texts.tokens([900])[0] == pytest.approx(20.0)


def test_hints_that_came_to_nothing_are_listened_to_ever_more_seldom():
    texts, heard = Texts(), []
    wrote(texts, 900, *[1] * SEEN)
    for look in range(40):
        texts.hint(900, 8.0)
        if texts.tokens([900])[0] > 2.0:
            heard.append(look)
            wrote(texts, 900, *[1] * SEEN)
    assert heard == [0, 2, 5, 10, 19, 36]
