"""What the replay of `auto` says of starts, on rounds whose speeds are known."""

from __future__ import annotations

import math

import pytest
from benchmarks.auto_replay import LAYING, arm, starts
from benchmarks.retrieval_acceptance import Answer
from tests.pacing.test_auto_pacer import answer, fresh


def rounds(first: float, rest: float, plain: float) -> list[tuple[int, float]]:
    """16 tokens in rounds of two, then 32 of them in rounds of four, so many times as fast as plain decoding."""
    return [(2, 2 * plain / first)] * 8 + [(4, 4 * plain / rest)] * 8


def test_the_slope_of_later_speeds_over_first_ones():
    plain = [0.02, 0.03, 0.02, 0.05]
    speeds = [0.8, 1.2, 1.9, 3.0]
    made = [rounds(speed, math.sqrt(speed), second) for speed, second in zip(speeds, plain, strict=True)]
    said = starts(plain, made, 16)
    assert "4 answers, first 16 tokens 1.72, rest 1.28, slope 0.50" in said
    assert f"{math.sqrt(0.8):.2f} after the 1 starts below 0.97" in said


def test_short_answers_say_nothing():
    assert starts([0.02] * 4, [rounds(2, 2, 0.02)[:4]] * 4, 16) == "0 answers of 32 tokens: too few"


@pytest.mark.usefixtures("still")
def test_the_engine_has_its_price_for_drafts(monkeypatch):
    """A copied page is drafted, a step with nodes costs more, and every step is told."""
    page, spent = fresh(80, 5), []
    for laying in ((0.0, 0.0), LAYING):
        monkeypatch.setattr("benchmarks.auto_replay.LAYING", laying)
        own = arm("suffix", "two", 1)
        own.host = False
        made: Answer = answer(page, page)
        own.run(made)
        assert sum(tokens for tokens, _ in own.rounds) >= len(page) - 1
        assert sum(seconds for _, seconds in own.rounds) == pytest.approx(own.seconds)
        spent.append(own.seconds)
    assert spent[1] > spent[0]
