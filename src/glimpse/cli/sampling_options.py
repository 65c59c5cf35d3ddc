"""Every option of `SamplingParams` as a flag."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from glimpse.cli.options import given, option
from glimpse.cli.parsing import numbers, text, weights
from glimpse.cli.prompts import read_whole
from glimpse.errors import ArgumentError

if TYPE_CHECKING:
    from glimpse.sampling.params import SamplingParams

_SAMPLING = "Sampling (left out: the checkpoint's own defaults)"
_SCHEMA = 1 << 20
"""Bytes of a schema, many more than a compiler takes."""


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """Every option of `SamplingParams`."""

    max_tokens: Annotated[
        int | None, option(_SAMPLING, "Most tokens to write. Default: until the text or context ends.", "--max-tokens")
    ] = None
    min_tokens: Annotated[int | None, option(_SAMPLING, "Tokens to write before it may stop.", "--min-tokens")] = None
    temperature: Annotated[float | None, option(_SAMPLING, "0 is greedy.", "--temperature")] = None
    top_p: Annotated[float | None, option(_SAMPLING, "Keep the likeliest tokens up to this share.", "--top-p")] = None
    top_k: Annotated[int | None, option(_SAMPLING, "Keep the K likeliest tokens.", "--top-k")] = None
    min_p: Annotated[
        float | None, option(_SAMPLING, "Keep tokens at least this share of the likeliest one.", "--min-p")
    ] = None
    repetition_penalty: Annotated[
        float | None, option(_SAMPLING, "Divide what was seen, prompt included; 1 is off.", "--repetition-penalty")
    ] = None
    frequency_penalty: Annotated[
        float | None, option(_SAMPLING, "Subtract per time a token was written.", "--frequency-penalty")
    ] = None
    presence_penalty: Annotated[
        float | None, option(_SAMPLING, "Subtract once from tokens that were written.", "--presence-penalty")
    ] = None
    logit_bias: Annotated[
        list[str], option(_SAMPLING, "Add to a token's logit; may be repeated.", "--logit-bias", metavar="ID=BIAS,...")
    ] = field(default_factory=list)
    stop: Annotated[list[str], option(_SAMPLING, "Stop before this text; may be repeated.", "--stop")] = field(
        default_factory=list
    )
    stop_token_ids: Annotated[
        list[str], option(_SAMPLING, "Stop at these tokens.", "--stop-token-ids", metavar="ID,...")
    ] = field(default_factory=list)
    ignore_eos: Annotated[bool, option(_SAMPLING, "Go on past the end-of-text token.", "--ignore-eos")] = False
    bad_words: Annotated[list[str], option(_SAMPLING, "Never write this; may be repeated.", "--bad-words")] = field(
        default_factory=list
    )
    suppress_tokens: Annotated[
        list[str], option(_SAMPLING, "Never write these tokens.", "--suppress-tokens", metavar="ID,...")
    ] = field(default_factory=list)
    seed: Annotated[int | None, option(_SAMPLING, "Same seed, same text.", "--seed")] = None
    logprobs: Annotated[int | None, option(_SAMPLING, "Log-probabilities of N tokens per position.", "--logprobs")] = (
        None
    )
    prompt_logprobs: Annotated[int | None, option(_SAMPLING, "The same for the prompt.", "--prompt-logprobs")] = None
    json_schema: Annotated[
        str | None, option(_SAMPLING, "A file with the JSON schema that the text must meet.", "--json-schema")
    ] = None
    regex: Annotated[
        str | None, option(_SAMPLING, "A regular expression that the whole text must match.", "--regex")
    ] = None
    n: Annotated[int | None, option(_SAMPLING, "How many texts to write.", "--n", "-n")] = None

    def refuse_what_is_not_shown(self, *, json: bool) -> None:
        """Raises ArgumentError for log-probabilities outside JSON: text has no place for them, and none is ignored."""
        for name, value in (("--logprobs", self.logprobs), ("--prompt-logprobs", self.prompt_logprobs)):
            if value is not None and not json:
                raise ArgumentError(f"{name} needs --json: plain text has no place for log-probabilities")

    def params(self) -> SamplingParams:
        """The `SamplingParams` of what was given. Raises ArgumentError for values out of range."""
        parsed = {
            "logit_bias": weights("--logit-bias", self.logit_bias),
            "stop_token_ids": numbers("--stop-token-ids", self.stop_token_ids),
            "suppress_tokens": numbers("--suppress-tokens", self.suppress_tokens),
            "stop": tuple(text("--stop", value) for value in self.stop),
            "bad_words": tuple(text("--bad-words", value) for value in self.bad_words),
        }
        values = given(self) | {name: value for name, value in parsed.items() if value}
        grammar = self._grammar(values.pop("json_schema", None), values.pop("regex", None))
        values |= {"grammar": grammar} if grammar else {}
        from glimpse.sampling.params import SamplingParams

        return SamplingParams(**values)

    @staticmethod
    def _grammar(file: str | None, regex: str | None) -> dict[str, Any] | None:
        if file is None:
            return None if regex is None else {"regex": text("--regex", regex)}
        if regex is not None:
            raise ArgumentError("--json-schema and --regex: a text meets one of them; leave the other out")
        try:
            with Path(file).open("rb") as source:
                return {"json_schema": json.loads(read_whole(source, f"--json-schema {file!r}", _SCHEMA).decode())}
        except OSError as error:
            raise ArgumentError(f"--json-schema {file!r} cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"--json-schema {file!r} cannot be read as JSON: {error}") from error
