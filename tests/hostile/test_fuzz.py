"""Hostile input, at random and seeded: it works, or it is refused by one clear line; never anything else.

A longer run: `python -m benchmarks.fuzz --seconds 600`.
"""

from __future__ import annotations

import logging
import time

import pytest
from tests.hostile.attempts import Tally, little_memory, try_out
from tests.hostile.targets import TARGETS, try_target

from glimpse.errors import GlimpseError

ATTEMPTS = 60


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_one_clear_line(name, capsys):
    tally = Tally()
    with little_memory():
        for seed in range(ATTEMPTS):
            try_target(tally, name, seed)
    assert not tally.faults, "\n".join(tally.faults)
    assert tally.outcomes["worked"], "nothing got through: only the first check was tried"
    assert tally.outcomes["refused"] or name == "command-line", "nothing was broken"


def test_a_panic_of_the_tokenizer_library_is_one_line():
    """Found by `tokenizer-files 500040`: a vocabulary with a hole ended the process."""
    tally = Tally()
    try_target(tally, "tokenizer-files", 500_040)
    assert not tally.faults, tally.faults
    assert tally.outcomes["refused"]


@pytest.mark.parametrize(
    "message",
    ["a\nb", "a\x1b[2Jb", "\ud800", "x" * 10_000, "\u2028 \u202e"],
    ids=["lines", "escape", "half", "long", "marks"],
)
def test_an_error_is_one_line_whatever_it_was_made_of(message):
    text = str(GlimpseError(message))
    assert text.isprintable()
    assert len(text) < 1_100


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: exec("while True: pass"), "Hangs"),
        (lambda: time.sleep(20), "Hangs"),
        (lambda: bytearray(1 << 34), "MemoryError"),
        (lambda: (_ for _ in ()).throw(GlimpseError("")), "empty message"),
    ],
    ids=["crash", "loop", "wait", "memory", "unclear"],
)
def test_what_is_tried_can_fail(monkeypatch, action, said):
    monkeypatch.setattr("tests.hostile.attempts.SECONDS", 0.2)
    tally = Tally()
    with little_memory():
        try_out(tally, "it", action)
    assert said in tally.faults[0]
