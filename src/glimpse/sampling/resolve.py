"""From what the user set, and what the checkpoint says, to values that are all effective."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from glimpse.errors import ArgumentError, ModelError
from glimpse.sampling.checks import inside_vocabulary, refuse
from glimpse.sampling.params import ResolvedParams, SamplingParams

Encode = Callable[[str], Sequence[int]]

FROM_CHECKPOINT = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
"""What is taken from the checkpoint's generation_config.json where the user left it unset."""

NEUTRAL: Mapping[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "logit_bias": {},
    "stop": (),
    "stop_token_ids": (),
    "min_tokens": 0,
    "ignore_eos": False,
    "bad_words": (),
    "suppress_tokens": (),
    "n": 1,
    "skip_special_tokens": True,
    "include_stop_str_in_output": False,
}
"""The values that change nothing."""


def resolve(
    params: SamplingParams,
    generation_defaults: Mapping[str, Any] | None = None,
    *,
    room: int | None = None,
    vocab_size: int | None = None,
    encode: Encode | None = None,
) -> ResolvedParams:
    """`params` with every value effective.

    Unset values come from `generation_defaults` (what generation_config.json itself holds; `do_sample: false` there
    means temperature 0), else they are neutral. `room` is the number of tokens that the context still takes; max_tokens
    and min_tokens never exceed it. `encode` turns a bad word's text into token ids, without special tokens. Raises
    ArgumentError for a token id that is not below `vocab_size`, ModelError for a bad default of the checkpoint.
    """
    values = dict(NEUTRAL) | _checkpoint_values(generation_defaults or {}) | _set_values(params)
    values["bad_words"] = _bad_words(values["bad_words"], encode)
    values["top_k"] = max(0, values["top_k"])
    values.setdefault("seed", secrets.randbits(63))
    longest = values.get("max_tokens", -1)
    values["max_tokens"] = _clipped(None if longest == -1 else longest, room)
    values["min_tokens"] = _clipped(values["min_tokens"], room)
    resolved = ResolvedParams(**values)
    if vocab_size is not None:
        check_ids(resolved, vocab_size)
    return resolved


def check_ids(params: ResolvedParams, vocab_size: int) -> None:
    """Raises ArgumentError when a token id of `params` lies outside the vocabulary."""
    inside_vocabulary("logit_bias", params.logit_bias, vocab_size)
    inside_vocabulary("stop_token_ids", params.stop_token_ids, vocab_size)
    inside_vocabulary("suppress_tokens", params.suppress_tokens, vocab_size)
    inside_vocabulary("bad_words", chain.from_iterable(params.bad_words), vocab_size)


def _set_values(params: SamplingParams) -> dict[str, Any]:
    return {name: value for name, value in params.as_dict().items() if value is not None}


def _checkpoint_values(defaults: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: defaults[name] for name in FROM_CHECKPOINT if defaults.get(name) is not None}
    if defaults.get("do_sample") is False:
        given["temperature"] = 0.0
    try:
        return _set_values(SamplingParams(**given))
    except ArgumentError as error:
        raise ModelError(f"generation_config.json of the checkpoint: {error}") from error


def _clipped(value: int | None, room: int | None) -> int | None:
    given = [number for number in (value, room) if number is not None]
    return min(given) if given else None


def _bad_words(words: Iterable[str | tuple[int, ...]], encode: Encode | None) -> tuple[tuple[int, ...], ...]:
    """The token sequences to ban. A word's text is banned both as it stands and with a space before it."""
    banned: dict[tuple[int, ...], None] = {}
    for word in words:
        if not isinstance(word, str):
            banned[word] = None
        elif encode is None:
            raise refuse("bad_words", word, "token ids where there is no tokenizer to encode text")
        else:
            banned |= {tuple(encode(form)): None for form in (word, " " + word.lstrip())}
    banned.pop((), None)
    return tuple(banned)
