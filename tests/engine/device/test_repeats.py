"""Texts that repeat themselves, followed in every step without a draft."""

from __future__ import annotations

import random
from math import exp
from types import SimpleNamespace

import pytest
import torch

from glimpse.cache.rows import Rows
from glimpse.engine.device.repeats import EVERY, LONGEST, WINDOW, Repeats

WIDTH = 600


class Followed:
    """Some texts, of which more and more is written."""

    def __init__(self, *texts, prompt=0):
        self.rows, self.texts, self.hints = Rows(len(texts), WIDTH, 1), texts, {}
        for slot, text in enumerate(texts):
            self.rows.tokens[slot, : len(text)] = torch.tensor(text)
            self.rows.prompt_len[slot], self.rows.committed_len[slot] = prompt, max(1, prompt)
        self.repeats = Repeats(self.rows, self.hints.update)
        self.seats = [
            SimpleNamespace(slot=slot, request=SimpleNamespace(arrival=70 + slot)) for slot in range(len(texts))
        ]

    def write(self, tokens, seats=None):
        """So many more of each, and steps until they are looked at."""
        for seat in seats or self.seats:
            self.rows.committed_len[seat.slot] = min(
                len(self.texts[seat.slot]), int(self.rows.committed_len[seat.slot]) + tokens
            )
        for _ in range(EVERY):
            self.repeats.step(seats or self.seats)
        return self.hints

    def known(self, slot=0):
        place, steps, accepted = self.repeats._known[slot].tolist()
        return int(place), steps, accepted


def right(text, prompt):
    """What steps with drafts of what followed the last three tokens where they stood last would write of a text, each
    a list of accepted counts; the last place that was come to."""
    counts, place = [], 0
    while place < len(text):
        count = 0
        if place >= max(3, prompt):
            ends = [end for end in range(3, place) if text[end - 3 : end] == text[place - 3 : place]]
            found = ends[-1] if ends else None
            while found is not None and count < LONGEST and place + count < len(text):
                if text[found + count] != text[place + count]:
                    break
                count += 1
            if 0 < count == len(text) - place < LONGEST:
                return counts, place
            counts.append(count)
        place += min(count + 1, len(text) - place)
    return counts, place


def mean(counts):
    steps = accepted = 0.0
    for count in counts:
        kept = exp(-(count + 1) / WINDOW)
        steps, accepted = kept * steps + 1, kept * accepted + count
    return steps, accepted


@pytest.mark.parametrize("prompt", [0, 5, 90])
@pytest.mark.parametrize("words", [3, 40])
def test_it_counts_what_such_drafts_would_bring(words, prompt):
    draw = random.Random(words + prompt)
    lines = [[draw.randrange(2, 300) for _ in range(draw.randint(3, 30))] for _ in range(words)]
    text = [token for _ in range(40) for token in draw.choice(lines)][:500]
    followed = Followed(text, prompt=prompt)
    followed.write(len(text))
    counts, place = right(text, prompt)
    assert sum(counts) > 20
    # Few n-grams share a bucket of the table with a later one, and are not found.
    came, *known = followed.known()
    assert came == pytest.approx(place, abs=LONGEST)
    assert known == pytest.approx(mean(counts), rel=0.1)


def test_in_pieces_it_comes_to_the_same():
    """But for a match that runs up to what is written: how it goes on is waited for."""
    draw = random.Random(1)
    text = [draw.randrange(2, 5) for _ in range(400)]
    whole, parts = Followed(text), Followed(text)
    whole.write(len(text))
    while int(parts.rows.committed_len[0]) < len(text):
        parts.write(draw.randint(1, 40))
    assert parts.known() == pytest.approx(whole.known())


def test_a_text_that_comes_to_repeat_itself_is_told_of_within_a_few_lines():
    draw = random.Random(2)
    line = [draw.randrange(1000) for _ in range(40)]
    text = [draw.randrange(1000) for _ in range(200)] + 8 * line
    followed = Followed(text, prompt=100)
    assert followed.write(140).get(70, 0.0) == 0.0
    assert followed.write(40 + 34)[70] > 1.0, "a line and two matches"
    assert followed.write(120)[70] > 4.0


def test_nothing_is_said_of_a_text_that_has_hardly_begun():
    followed = Followed([5, 6, 7, 8] * 100, prompt=300)
    assert followed.write(1) == {}, "where a match ends is not known yet"
    steps = 0
    while not followed.hints and steps < 100:
        followed.write(1)
        steps += 1
    assert steps == pytest.approx(2 * LONGEST + 2, abs=4)
    assert followed.write(60)[70] == pytest.approx(LONGEST)


def test_it_looks_once_in_so_many_steps_and_each_row_has_its_own():
    line = list(range(2, 42))
    followed = Followed(line * 10, list(range(2, 402)), prompt=50)
    looked = []
    read = followed.repeats._read
    followed.repeats._read = lambda slots: looked.append(slots.tolist()) or read(slots)
    followed.write(300)
    followed.write(1, followed.seats[1:])
    assert looked == [[0, 1], [1]]
    assert followed.hints[70] > 10
    assert followed.hints[71] == 0.0


def test_who_comes_next_into_a_row_has_nothing_of_what_was_there():
    line = list(range(2, 42))
    followed = Followed(line * 10, prompt=50)
    assert followed.write(300)[70] > 10
    followed.repeats.leave(0)
    followed.rows.committed_len[0] = 60
    followed.hints.clear()
    followed.seats[0].request.arrival = 90
    followed.write(0)
    assert followed.known()[0] <= 60
    followed.rows.tokens[0, 60:] = torch.arange(1000, 1000 + WIDTH - 60 + 1)[: followed.rows.tokens.shape[1] - 60]
    assert followed.write(300).get(90, 0.0) < 2.0
