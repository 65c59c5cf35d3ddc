"""What a caller may pass as prompts and parameters, brought to one form."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from glimpse.errors import ArgumentError
from glimpse.sampling.checks import refuse
from glimpse.sampling.params import SamplingParams

_BYTES = (bytes, bytearray, memoryview)


def as_prompts(given: object) -> list[object]:
    """One prompt or several as a list. A list of numbers is one prompt, and so is an empty list.

    Raises ArgumentError for what is neither text nor a sequence; `as_prompt` checks each prompt.
    """
    if isinstance(given, str):
        return [given]
    entries = _entries(given)
    return entries if any(isinstance(entry, str) or _is_sequence(entry) for entry in entries) else [entries]


def as_prompt(given: object) -> str | list[int]:
    """One prompt: text as it is, or its token ids from any sequence, array or tensor of whole numbers.

    Raises ArgumentError for anything else.
    """
    return given if isinstance(given, str) else [_token(entry) for entry in _entries(given)]


def as_params(given: object, count: int) -> list[SamplingParams]:
    """The parameters of each of `count` prompts, from those for all of them or one a prompt; None: nothing is set.

    Raises ArgumentError for another type or number.
    """
    if given is None or isinstance(given, SamplingParams):
        return [given or SamplingParams()] * count
    if not isinstance(given, Sequence) or not all(isinstance(entry, SamplingParams) for entry in given):
        raise refuse("params", given, "SamplingParams, or a list of one a prompt")
    if len(given) != count:
        raise ArgumentError(f"{count} prompts but {len(given)} SamplingParams; give one, or one a prompt")
    return list(given)


def single_output(params: object) -> SamplingParams:
    """The parameters of a call that gives one output. Raises ArgumentError where several are asked for."""
    if params is not None and not isinstance(params, SamplingParams):
        raise refuse("params", params, "SamplingParams")
    if params is not None and params.n not in (None, 1):
        raise ArgumentError(f"n must be 1 here, not {params.n}; generate gives several outputs")
    return params or SamplingParams()


def _plain(value: Any) -> Any:
    """Arrays and tensors, also those of one number, as Python's own lists and numbers."""
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, _BYTES) else value


def _is_sequence(value: object) -> bool:
    return isinstance(_plain(value), Sequence)


def _entries(given: object) -> list[object]:
    plain = _plain(given)
    if not isinstance(plain, Sequence) or isinstance(plain, (str, *_BYTES)):
        raise refuse("a prompt", given, "text or a list of token ids")
    return list(plain)


def _token(entry: object) -> int:
    if type(entry) is int:  # quick for long prompts; bool is no int by this test
        return entry
    plain = _plain(entry)
    if isinstance(plain, bool) or not isinstance(plain, Integral):
        raise refuse("each token id of a prompt", entry, "a whole number")
    return int(plain)
