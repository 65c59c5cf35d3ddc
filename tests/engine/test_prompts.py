"""What may be passed as prompts and parameters."""

import numpy as np
import pytest
import torch

from glimpse.engine.prompts import as_params, as_prompt, as_prompts, single_output
from glimpse.engine.submit import make_requests
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams


def settled(given):
    return [as_prompt(prompt) for prompt in as_prompts(given)]


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("ab", ["ab"]),
        ([], [[]]),
        ([5, 6], [[5, 6]]),
        ((5, 6), [[5, 6]]),
        (range(5, 7), [[5, 6]]),
        (["ab", [5]], ["ab", [5]]),
        ([[5], []], [[5], []]),
        (np.array([5, 6]), [[5, 6]]),
        (np.array([[5, 6], [7, 8]]), [[5, 6], [7, 8]]),
        ([np.int64(5), np.uint8(6)], [[5, 6]]),
        (torch.tensor([5, 6]), [[5, 6]]),
        ([torch.tensor([5]), np.array([6])], [[5], [6]]),
        ([torch.tensor(5), 6], [[5, 6]]),
    ],
)
def test_text_and_any_whole_numbers_are_prompts(given, right):
    got = settled(given)
    assert got == right
    assert all(type(token) is int for prompt in got if isinstance(prompt, list) for token in prompt)


WRONG = [
    None, 5, 5.5, True, b"abc", bytearray(b"abc"), memoryview(b"abc"), [b"abc"], {"a": 1}, {5, 6}, [{"a": 1}], [None],
    [5, "a"], [5, None], [5.5, 6], [[5.5, 6.2]], [True, False], [[True]], [["a"]], [[[5]]], ["a", None],
    torch.tensor([5.0]), torch.tensor(5), torch.tensor([True]), np.array(["a"]).reshape(1, 1), np.array([None]),
]  # fmt: skip


@pytest.mark.parametrize("given", WRONG, ids=lambda given: type(given).__name__)
def test_anything_else_is_refused(given):
    with pytest.raises(ArgumentError, match="prompt") as caught:
        settled(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("params", [{"max_tokens": 3}, "x", "", 5, [None], [{"n": 1}], [], [SamplingParams()] * 2])
def test_params_of_a_wrong_type_or_number_are_refused(params):
    with pytest.raises(ArgumentError, match=r"params|Params"):
        as_params(params, 1)


@pytest.mark.parametrize("params", [{"max_tokens": 3}, "", 5, [SamplingParams()]])
def test_calls_with_one_output_take_one_params(params):
    with pytest.raises(ArgumentError, match="params must be SamplingParams"):
        single_output(params)


def test_one_params_serve_all_prompts():
    own = SamplingParams(n=2)
    assert as_params(own, 3) == [own] * 3
    assert as_params(None, 2) == [SamplingParams()] * 2
    assert as_params((own, own), 2) == [own, own]


@pytest.mark.parametrize("wrong", [-1, 300, 1 << 62, 1 << 63, -(1 << 70)])
def test_an_id_out_of_range_is_named_however_large(tiny_folder, wrong):
    llm = LLM(tiny_folder, drafter="none", pacer="fixed", max_context=64)
    vocab = llm.loaded.checkpoint.spec.vocab_size
    asked = wrong if wrong != 300 else vocab
    with pytest.raises(ArgumentError, match=f"holds token id {asked}, but ids go from 0 to {vocab - 1}"):
        make_requests(llm.loaded, llm._engine, [5, 6, asked, 7], SamplingParams())
