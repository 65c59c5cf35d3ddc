"""Turns that captured graphs are repeated, a few times."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from glimpse.bench.captures import TRIES, captures, settled


@pytest.mark.parametrize(("fresh", "given_up", "left"), [([], 0, 0), ([2], 1, 0), ([1] * 9, TRIES, 1)])
def test_turns_that_captured_are_given_up(fresh, given_up, left):
    engine, turns = SimpleNamespace(facts={"graphs": 3, "graphs_dropped": 1}), []

    def run():
        engine.facts["graphs"] += fresh.pop() if fresh else 0
        turns.append(engine.facts["graphs"])
        return turns[-1]

    assert settled(run, engine) == (turns[-1], given_up, left)
    assert len(turns) == given_up + 1


def test_an_engine_without_graphs_captures_none():
    assert captures(SimpleNamespace(facts={})) == 0
