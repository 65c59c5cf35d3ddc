"""SamplingParams: what is legal, what is refused and how it says so."""

import json
import math

import numpy as np
import pytest

from glimpse.errors import ArgumentError
from glimpse.sampling import SamplingParams
from glimpse.sampling.params import CHECKS

WRONG = {
    "max_tokens": [-2, 1.5, True, "9", math.nan],
    "min_tokens": [-1, 0.5, False],
    "temperature": [-0.1, 1e-46, 9e-7, 1.1e6, 1e39, 10**400, math.nan, math.inf, True, "hot"],
    "top_p": [0, 0.0, -0.5, 1.01, math.nan, True],
    "top_k": [-2, 2.0, True, math.nan],
    "min_p": [-0.1, 1.1, math.nan, False],
    "repetition_penalty": [0, 0.0, -1, 1e-39, 9e-4, 1001, math.nan, math.inf, True],
    "frequency_penalty": [-2.1, 2.1, math.nan],
    "presence_penalty": [-3, 3, math.nan],
    "logit_bias": [[1], {"a": 1.0}, {-1: 1.0}, {1: math.nan}, {1: math.inf}, {1: 10**400}, {True: 1.0}],
    "stop": ["", ["a", ""], [1], 5, b"x", {"a": 1}],
    "stop_token_ids": [[-1], [1.0], "12", 3, [True]],
    "ignore_eos": [1, "yes"],
    "bad_words": ["word", [""], [[]], [[1, -2]], [3]],
    "suppress_tokens": [[-1], ["a"], 4],
    "seed": [1.0, True, 1 << 64, -(1 << 63) - 1],
    "logprobs": [-1, True, 2.5],
    "prompt_logprobs": [-1, True],
    "n": [0, -1, True, 1.0],
    "skip_special_tokens": [0],
    "include_stop_str_in_output": ["no"],
    "grammar": [
        {},
        {"regex": ""},
        {"regex": 5},
        {"yaml": "a"},
        "a",
        {"regex": "a", "ebnf": "b"},
        {"json_schema": "{}"},
        {"json_schema": {"enum": [math.nan]}},
        {"json_schema": {"enum": [{1}]}},
    ],
}


def test_every_option_is_checked():
    assert set(WRONG) == set(CHECKS) == set(SamplingParams().as_dict())


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_wrong_values_are_refused_by_name(name, value):
    with pytest.raises(ArgumentError) as caught:
        SamplingParams(**{name: value})
    message = str(caught.value)
    assert name in message
    assert "must be" in message
    assert "\n" not in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": -1},
        {"max_tokens": 0},
        {"temperature": 0},
        {"temperature": 1e-6},
        {"temperature": 1e6},
        {"repetition_penalty": 1e-3},
        {"repetition_penalty": 1e3},
        {"top_p": 1},
        {"top_k": 0},
        {"top_k": -1},
        {"min_p": 0},
        {"min_p": 1},
        {"seed": (1 << 64) - 1},
        {"seed": -(1 << 63)},
        {"top_k": np.int64(5)},
        {"temperature": np.float32(0.5)},
        {"logprobs": 0},
        {"max_tokens": -1, "min_tokens": 10},
        {"max_tokens": 10, "min_tokens": 10},
    ],
)
def test_legal_boundaries(options):
    SamplingParams(**options)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"temperature": 1e-46}, r"temperature must be 0 \(greedy\) or .* >= 1e-06 and <= 1e\+06, not 1e-46"),
        ({"repetition_penalty": 2000.0}, r"repetition_penalty must be .* >= 0.001 and <= 1000, not 2000"),
    ],
)
def test_a_message_names_the_range(option, said):
    with pytest.raises(ArgumentError, match=said):
        SamplingParams(**option)


@pytest.mark.parametrize("name", ["temperature", "seed", "logit_bias"])
def test_numbers_too_long_to_print_are_refused(name):
    huge = 10**5000
    with pytest.raises(ArgumentError, match=f"{name}.*not "):
        SamplingParams(**{name: {huge: 1e10} if name == "logit_bias" else huge})


def test_unset_is_none():
    assert set(SamplingParams().as_dict().values()) == {None}


def test_contradiction_names_both_numbers():
    with pytest.raises(ArgumentError, match=r"min_tokens .*max_tokens \(4\), not 5"):
        SamplingParams(max_tokens=4, min_tokens=5)


def test_values_are_settled_and_cannot_be_changed_from_outside():
    ids = [1, 2]
    params = SamplingParams(stop="x", stop_token_ids=ids, logit_bias={"7": 1}, bad_words=["ab", [3, 4]])
    ids.append(9)
    assert params.stop == ("x",)
    assert params.stop_token_ids == (1, 2)
    assert params.logit_bias == {7: 1.0}
    assert params.bad_words == ("ab", (3, 4))
    with pytest.raises(AttributeError):
        params.top_k = 3


def test_options_are_keyword_only():
    with pytest.raises(TypeError):
        SamplingParams(5)


def test_as_dict_goes_into_json():
    params = SamplingParams(stop=["a"], logit_bias={3: 1.5}, top_k=np.int32(4)).resolve({})
    assert json.loads(json.dumps(params.as_dict()))["top_k"] == 4
