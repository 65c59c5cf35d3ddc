import json
import math
from enum import StrEnum
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glimpse.outputs import (
    Comparison,
    Divergence,
    GenerationOutput,
    Speculation,
    Timing,
    TokenLogprob,
    Usage,
    first_difference,
)


def recorded(*rounds, **names):
    speculation = Speculation(**names)
    for drafted, accepted in rounds:
        speculation.record(drafted, accepted)
    return speculation


def output(token_ids=(5, 6), **changes):
    count = len(token_ids)
    fields = {
        "text": "hi",
        "token_ids": tuple(token_ids),
        "finish_reason": "stop",
        "usage": Usage(3, count),
        "speculation": recorded((4, 1), drafter="lookup", pacer="entropy"),
        "timing": Timing(0.5, 0.25, count),
    }
    return GenerationOutput(**{**fields, **changes})


def test_vector_v5():
    """A61: four drafted in each of three rounds, of which 4, 0 and 2 were accepted."""
    speculation = recorded((4, 4), (4, 0), (4, 2))
    assert speculation.acceptance_rate == 0.5
    assert speculation.mean_accepted_length == 3.0
    assert speculation.acceptance_by_position == [2 / 3, 2 / 3, 1 / 3, 1 / 3]
    assert speculation.emitted == 9
    assert (speculation.rounds, speculation.drafted, speculation.accepted) == (3, 12, 6)
    assert speculation.conditional_acceptance == [2 / 3, 1.0, 0.5, 1.0]


def test_rounds_without_a_draft_are_plain_steps():
    speculation = recorded((0, 0), (2, 2), (0, 0))
    assert (speculation.rounds, speculation.plain_steps, speculation.emitted) == (1, 2, 5)
    assert speculation.draft_lengths == {2: 1}


def test_positions_count_only_rounds_that_drafted_them():
    speculation = recorded((1, 1), (3, 1), (3, 0))
    assert speculation.acceptance_by_position == [2 / 3, 0.0, 0.0]
    assert speculation.conditional_acceptance == [2 / 3, 0.0, None]
    assert speculation.draft_lengths == {1: 1, 3: 2}


def test_nothing_drafted():
    speculation = recorded((0, 0))
    assert speculation.acceptance_rate == 0.0
    assert speculation.mean_accepted_length == 1.0
    assert speculation.acceptance_by_position == []


def test_a_tree_counts_nodes_its_path_and_its_depth():
    speculation = Speculation()
    speculation.record(20, 2, depth=4)
    speculation.record(6, 0, depth=1)
    speculation.record(3, 3)
    assert (speculation.rounds, speculation.drafted, speculation.accepted, speculation.emitted) == (3, 29, 5, 8)
    assert speculation.acceptance_by_position == [2 / 3, 1.0, 0.5, 0.0]
    assert speculation.conditional_acceptance == [2 / 3, 1.0, 0.5, None]
    assert speculation.mean_accepted_length == 1 + 5 / 3
    assert speculation.draft_lengths == {20: 1, 6: 1, 3: 1}


@pytest.mark.parametrize(("drafted", "accepted", "depth"), [(5, 3, 2), (3, 1, 4)])
def test_impossible_trees_are_refused(drafted, accepted, depth):
    with pytest.raises(ValueError, match=rf"between 0 and depth \({depth}\), and depth at most drafted \({drafted}\)"):
        Speculation().record(drafted, accepted, depth)


@pytest.mark.parametrize(("drafted", "accepted"), [(1, 2), (3, -1), (-1, -1), (0, 1)])
def test_impossible_rounds_are_refused(drafted, accepted):
    with pytest.raises(ValueError, match="accepted must be between"):
        Speculation().record(drafted, accepted)


@given(st.lists(st.integers(0, 9).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d)))))
def test_sums_agree(rounds):
    """A61, A62: rates lie in [0, 1] and every sub-count is at most the whole."""
    speculation = recorded(*rounds)
    assert speculation.drafted == sum(drafted for drafted, _ in rounds)
    assert speculation.accepted == sum(accepted for _, accepted in rounds) <= speculation.drafted
    assert speculation.emitted == sum(accepted + 1 for _, accepted in rounds)
    assert 0 <= speculation.acceptance_rate <= 1
    assert sum(length * count for length, count in speculation.draft_lengths.items()) == speculation.drafted
    for overall, given_before in zip(
        speculation.acceptance_by_position, speculation.conditional_acceptance, strict=True
    ):
        assert 0 <= overall <= (1 if given_before is None else given_before) <= 1


def test_usage_adds_up():
    assert Usage(7, 5).total_tokens == 12


def test_speed_counts_tokens_after_the_first():
    """A63."""
    assert Timing(1.0, 2.0, completion_tokens=9).tokens_per_s == 4.0
    assert Timing(1.0, 0.0, completion_tokens=1).tokens_per_s is None
    assert Timing(1.0, 0.0, completion_tokens=0).tokens_per_s is None


def test_json_has_the_documented_shape():
    assert output(settings={"temperature": 0.0}).to_json() == {
        "text": "hi",
        "token_ids": [5, 6],
        "finish_reason": "stop",
        "stop_reason": None,
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
        "speculation": {
            "drafter": "lookup",
            "pacer": "entropy",
            "acceptance": "coupled",
            "rounds": 1,
            "drafted": 4,
            "accepted": 1,
            "mean_accepted_length": 2.0,
            "acceptance_rate": 0.25,
            "acceptance_by_position": [1.0, 0.0, 0.0, 0.0],
        },
        "timing": {"prefill_s": 0.5, "decode_s": 0.25, "tokens_per_s": 4.0},
        "settings": {"temperature": 0.0},
    }


def test_lossy_says_so():
    assert output(speculation=Speculation(lossless=False)).to_json()["speculation"]["lossless"] is False


def test_logprobs_and_warnings_appear_if_there_are_any():
    report = output(
        logprobs=(TokenLogprob(5, -0.5, ((5, -0.5), (9, -math.inf))),),
        prompt_logprobs=(None, TokenLogprob(2, -1.0)),
        warnings=("slow",),
    ).to_json()
    assert report["logprobs"] == [
        {"token_id": 5, "logprob": -0.5, "top": [{"token_id": 5, "logprob": -0.5}, {"token_id": 9, "logprob": None}]}
    ]
    assert report["prompt_logprobs"] == [None, {"token_id": 2, "logprob": -1.0, "top": []}]
    assert report["warnings"] == ["slow"]


class Colour(StrEnum):
    RED = "red"


def test_settings_become_plain_json():
    settings = {
        "dtype": torch.float32,
        "device": torch.device("cpu"),
        "path": Path("a/b"),
        "numbers": (np.int64(3), np.float32(0.5), torch.tensor(2), math.inf, math.nan),
        "set": frozenset({2, 1}),
        "bias": {7: -1.0},
        "flag": True,
        "enum": Colour.RED,
    }
    report = output(settings=settings).to_json()
    assert report["settings"] == {
        "dtype": "torch.float32",
        "device": "cpu",
        "path": "a/b",
        "numbers": [3, 0.5, 2, None, None],
        "set": [1, 2],
        "bias": {"7": -1.0},
        "flag": True,
        "enum": "red",
    }
    assert type(report["settings"]["enum"]) is str
    assert json.loads(json.dumps(report, allow_nan=False)) == report


@pytest.mark.parametrize(
    ("left", "right", "position"),
    [((), (), None), ((1, 2), (1, 2), None), ((1, 2), (1, 3), 1), ((1,), (1, 2), 1), ((1, 2), (), 0)],
)
def test_first_difference(left, right, position):
    assert first_difference(left, right) == position


def test_comparison():
    same = Comparison(baseline=output(), speculative=output(), speedup=1.5)
    assert same.identical
    assert same.first_divergence is None
    other = Comparison(baseline=output((5, 6)), speculative=output((5, 7, 8)), speedup=math.nan, margin=1e-6)
    assert not other.identical
    assert other.first_divergence == Divergence(1, 1e-6)
    report = other.to_json()
    assert report["first_divergence"] == {"position": 1, "margin": 1e-6}
    assert (report["identical"], report["speedup"], report["predicted_speedup"]) == (False, None, None)
    assert report["baseline"] == output((5, 6)).to_json()
    assert same.to_json()["first_divergence"] is None
