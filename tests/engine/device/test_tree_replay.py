"""The replay of a GPU's engine: what it counts, and that it rests, pads and learns as the engine does."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.tree_engine import Device, Engine
from benchmarks.tree_replay import groups, run
from benchmarks.tree_stream import LEARNED, stream
from tests.bench.test_retrieval_pricing import write

from glimpse.engine.device.asking import LOOK

CHEAP = Device(1e-3, 1.1e-3, 0.002e-3, 0.05e-3, 16_000_000_000, 131_072)
DEAR = Device(1e-3, 4e-3, 1e-3, 1e-3, 16_000_000_000, 131_072)


@pytest.fixture
def repeats(tmp_path):
    return [write(tmp_path, f"set-{place}", period) for place, period in enumerate((20, 9, 15))]


@pytest.fixture
def nothing(tmp_path):
    """No token comes twice, and successors are never right."""
    made = write(tmp_path, "none-0", 90)
    made.successors[:] = np.arange(1000, 1008)
    return made


def test_plain_steps_take_what_they_take(repeats):
    count = Engine("none", CHEAP).answer(repeats[0])
    assert count.tokens == count.steps == len(repeats[0].ids) - repeats[0].prompt - 1
    assert count.rate * CHEAP.plain == pytest.approx(1.0, rel=0.01)
    assert (count.nodes, count.rested) == (0, 0)


def test_drafts_pay_where_nodes_are_cheap_and_steps_run_padded(repeats):
    count = Engine("8 nodes", CHEAP).answer(repeats[0])
    assert count.rate * CHEAP.plain > 2
    assert count.nodes <= 8 * count.steps
    assert count.nodes < count.ran <= 16 * count.steps, "nine tokens run as 16"
    assert count.captures <= 3


@pytest.mark.parametrize("arm", ["racer", "auto"])
def test_it_rests_where_drafts_are_dear_and_not_where_they_pay(arm, repeats, nothing):
    dear, cheap = Engine(arm, DEAR), Engine(arm, CHEAP)
    dear.answer(nothing)
    assert dear.answer(nothing).rested > 20
    rested = sum(cheap.answer(answer).rested for answer in repeats * 2)
    assert rested <= LOOK, "plain steps are timed once"


def test_a_group_has_an_answer_of_each_set_in_both_modes(tmp_path, repeats):
    for name in ("a-0", "a-1", "b-0"):
        for mode in ("greedy", "sampled"):
            write(tmp_path, f"{name}-{mode}", 9)
            held = dict(np.load(tmp_path / f"{name}-{mode}.npz"))
            np.savez(tmp_path / f"{name}-{mode}.npz", **held | {"name": name[0]})
    (both,) = groups(tmp_path, 30)
    assert [[answer.set for answer in mode] for mode in both] == [["a", "b"]] * 2
    greedy, sampled = run("racer", CHEAP, both)
    assert greedy.tokens == sampled.tokens == 2 * 29, "what came first does not count"
    assert "tokens a step" in str(greedy + sampled)


def test_a_stream_goes_through_one_engine_and_its_first_answers_do_not_count(repeats, nothing):
    answers = [*repeats, nothing] * 3
    made = stream("auto", CHEAP, answers, orders=2)
    assert len(made.speeds) == 2 * (len(answers) - LEARNED)
    each = len(nothing.ids) - nothing.prompt - 1
    assert sum(count.tokens for count in made.sets.values()) == len(made.speeds) * each
    assert made.line(CHEAP.plain).startswith("times plain")
