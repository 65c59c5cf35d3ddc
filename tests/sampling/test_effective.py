"""Resolving: the user's values, then the checkpoint's, then neutral ones."""

import pytest

from glimpse.errors import ArgumentError, ModelError
from glimpse.sampling import SamplingParams, child_seed
from glimpse.sampling.noise import to_int64


def test_neutral_values_change_nothing():
    values = SamplingParams().resolve({}).as_dict()
    assert (values["temperature"], values["top_p"], values["top_k"], values["min_p"]) == (1.0, 1.0, 0, 0.0)
    assert (values["repetition_penalty"], values["frequency_penalty"], values["presence_penalty"]) == (1.0, 0.0, 0.0)
    assert values["n"] == 1
    assert values["skip_special_tokens"] is True
    left_open = {name for name, value in values.items() if value is None}
    assert left_open == {"max_tokens", "logprobs", "prompt_logprobs", "grammar"}


def test_checkpoint_fills_what_the_user_left_unset():
    defaults = {
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
        "min_p": 0.1,
        "repetition_penalty": 1.05,
        "bos_token_id": 1,
    }
    filled = SamplingParams(top_k=5).resolve(defaults)
    assert (filled.temperature, filled.top_k, filled.top_p, filled.min_p) == (0.6, 5, 0.95, 0.1)
    assert filled.repetition_penalty == 1.05


def test_unset_temperature_is_one_even_with_top_k():
    assert SamplingParams(top_k=50).resolve({}).temperature == 1.0


def test_do_sample_false_is_greedy_unless_the_user_set_a_temperature():
    defaults = {"do_sample": False, "temperature": 0.6}
    assert SamplingParams().resolve(defaults).greedy
    assert SamplingParams(temperature=0.3).resolve(defaults).temperature == 0.3
    assert SamplingParams().resolve({"do_sample": True, "temperature": 0.6}).temperature == 0.6


def test_nulls_in_the_checkpoint_are_unset():
    assert SamplingParams().resolve({"top_k": None, "temperature": None}).top_k == 0


def test_bad_default_names_the_file():
    with pytest.raises(ModelError, match=r"generation_config\.json.*repetition_penalty"):
        SamplingParams().resolve({"repetition_penalty": 0.0})


@pytest.mark.parametrize(
    ("asked", "room", "right"),
    [(None, None, None), (-1, None, None), (None, 9, 9), (-1, 9, 9), (4, 9, 4), (20, 9, 9), (0, 9, 0)],
)
def test_max_tokens_ends_at_the_context(asked, room, right):
    assert SamplingParams(max_tokens=asked).resolve({}, room=room).max_tokens == right


def test_min_tokens_past_the_context_is_no_contradiction():
    effective = SamplingParams(max_tokens=20, min_tokens=15).resolve({}, room=9)
    assert (effective.max_tokens, effective.min_tokens) == (9, 9)


def test_seed_is_drawn_once_and_visible():
    first, second = SamplingParams().resolve({}), SamplingParams().resolve({})
    assert first.seed != second.seed
    assert first.resolve({}).seed == first.seed
    assert SamplingParams(seed=0).resolve({}).seed == 0


def test_children_have_seeds_of_their_own():
    effective = SamplingParams(n=3, seed=(1 << 63) + 5).resolve({})
    children = [effective.child(i) for i in range(3)]
    assert [child.n for child in children] == [1, 1, 1]
    assert children[0].seed == to_int64(effective.seed)
    assert children[2].seed == child_seed(effective.seed, 2)
    assert len({child.seed for child in children}) == 3


def test_bad_words_are_banned_with_and_without_a_space():
    words = {"cat": [1, 2], " cat": [3]}
    effective = SamplingParams(bad_words=["cat", [9, 8]]).resolve({}, encode=words.__getitem__)
    assert effective.bad_words == ((1, 2), (3,), (9, 8))
    with pytest.raises(ArgumentError, match="bad_words"):
        SamplingParams(bad_words=["cat"]).resolve({})


@pytest.mark.parametrize(
    "options",
    [{"logit_bias": {10: 1.0}}, {"stop_token_ids": [10]}, {"suppress_tokens": [3, 99]}, {"bad_words": [[1, 10]]}],
)
def test_token_ids_outside_the_vocabulary(options):
    SamplingParams(**options).resolve({}, vocab_size=100)
    with pytest.raises(ArgumentError, match=f"{next(iter(options))} must be below the vocabulary size 10"):
        SamplingParams(**options).resolve({}, vocab_size=10)
