"""Shadows: a replayed drafter scores what it would have scored itself."""

from __future__ import annotations

import random

import numpy as np
import pytest

from glimpse.drafting.auto import Reader, makers
from glimpse.drafting.tree import Tree
from glimpse.pacing.auto_shadow import Market, Score, Shadow
from glimpse.pacing.proposals import Proposal

MARKET = Market(plain=1.0, begin=1.0, node=0.05)


class Known:
    """Proposes the next tokens of a known text, `wrong` from the given depth on."""

    def __init__(self, text: list[int], right: int, count: int) -> None:
        self._text, self._right, self._count = text, right, count
        self.place, self.dropped = 0, 0

    def read(self, tokens) -> None:
        assert list(tokens) == self._text[self.place : self.place + len(tokens)]
        self.place += len(tokens)

    def propose(self, budget: int, depth: int) -> Tree:
        ahead = self._text[self.place : self.place + self._count]
        tokens = [token if place < self._right else token + 1000 for place, token in enumerate(ahead)]
        reach = np.cumprod(np.full(len(tokens), 0.9)).astype(np.float32)
        return Tree(np.array(tokens, np.int64), np.arange(-1, len(tokens) - 1), reach, np.ones(len(tokens), np.uint8))

    def learn(self, committed) -> None:
        self.dropped += not committed


def follow(source, text: list[int], pieces: list[int]) -> Shadow:
    shadow, begin = Shadow(Score(1.0)), 0
    shadow.wake(Reader(source))
    for size in pieces:
        shadow.follow(text[begin : begin + size], MARKET, 0.0)
        begin += size
    return shadow


@pytest.mark.parametrize("pieces", [[1] * 60, [60], [7, 1, 1, 30, 5, 16]])
def test_however_the_text_arrives_the_score_is_the_same(pieces):
    text = [random.Random(3).randrange(300) for _ in range(60)]
    alone = follow(Known(text, 2, 3), text, [1] * 60)
    assert follow(Known(text, 2, 3), text, pieces).score == alone.score


def test_a_drafter_that_is_always_right_gets_the_speed_of_its_rounds():
    text = list(range(400))
    shadow = follow(Known(text, 4, 4), text, [400])
    assert shadow.score.speed == pytest.approx(5 / (1 + 4 * 0.05), rel=0.02)


def test_a_drafter_that_is_always_wrong_costs_little_more_than_plain_decoding():
    """Its word counts for less and less, so its nodes are not even verified."""
    text = list(range(400))
    assert 0.97 < follow(Known(text, 0, 4), text, [400]).score.speed <= 1.0


def test_the_host_has_its_price():
    text, dear, cheap = list(range(200)), Shadow(Score(1.0)), Shadow(Score(1.0))
    for shadow, host in ((dear, 0.1), (cheap, 0.0)):
        shadow.wake(Reader(Known(text, 4, 4)))
        shadow.follow(text, MARKET, host)
    assert dear.score.speed == pytest.approx(5 / 1.3, rel=0.02)
    assert dear.score.speed < cheap.score.speed


def test_asleep_it_drops_its_round_and_reads_nothing():
    text = list(range(50))
    source = Known(text, 4, 4)
    shadow = follow(source, text, [2])
    assert source.place == 0, "the round is not over"
    shadow.sleep()
    assert source.dropped == 1
    before = (shadow.score.tokens, shadow.score.steps)
    shadow.follow(text[2:], MARKET, 0.0)
    assert (shadow.score.tokens, shadow.score.steps) == before


@pytest.mark.parametrize("name", list(makers()))
def test_real_sources_score_well_where_text_repeats_itself_and_about_one_where_not(name):
    draw = random.Random(2)
    loop = [draw.randrange(300) for _ in range(20)] * 12
    fresh = [draw.randrange(30000) for _ in range(240)]
    for text, low, high in ((loop, 1.5, 20), (fresh, 0.9, 1.001)):
        reader = Reader(makers()[name](None))
        reader.read(text[:40])
        shadow = Shadow(Score(1.0))
        shadow.wake(reader)
        for token in text[40:]:
            shadow.follow([token], MARKET, 0.0)
        assert low < shadow.score.speed < high


def test_a_tree_as_pacers_look_at_it():
    tree = Tree(np.array([5, 6, 7]), np.array([-1, 0, -1]), np.array([0.8, 0.4, 0.1], np.float32),
                np.array([1, 2, 2], np.uint8))  # fmt: skip
    found = Proposal.of_tree(tree)
    assert found.said == pytest.approx([0.8, 0.5, 0.1])
    assert found.depth.tolist() == [1, 2, 1]
    assert found.source.tolist() == [1, 2, 2]
