"""What a generation gives back, as Python objects and as the JSON of the command line."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from glimpse.errors import GlimpseError
from glimpse.speculation import Speculation

__all__ = [
    "BrokenOff",
    "Comparison",
    "Divergence",
    "GenerationOutput",
    "Piece",
    "Speculation",
    "StreamChunk",
    "TextStream",
    "Timing",
    "TokenLogprob",
    "Usage",
]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in and out; `completion_tokens` is the number of token ids returned, the ending one included."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def to_json(self) -> dict[str, object]:
        """The `usage` object of `--json`."""
        return {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one request. The prefill ends with the first token; everything after that is decoding."""

    prefill_s: float
    decode_s: float
    completion_tokens: int
    """All tokens returned, the first included."""

    @property
    def tokens_per_s(self) -> float | None:
        """Decode speed: (completion_tokens - 1) / decode_s, as the first token comes of the prefill.

        Tokens are counted, not steps or chunks, so a round that keeps five tokens counts five. None for fewer than two.
        """
        if self.completion_tokens < 2 or self.decode_s <= 0:
            return None
        return (self.completion_tokens - 1) / self.decode_s

    def to_json(self) -> dict[str, object]:
        """The `timing` object of `--json`."""
        return {"prefill_s": self.prefill_s, "decode_s": self.decode_s, "tokens_per_s": self.tokens_per_s}


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The natural log probability of one token of the text, and of the likeliest ones in its place."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    """(token id, log probability), likeliest first."""

    def to_json(self) -> dict[str, object]:
        """One entry of `logprobs`."""
        top = [{"token_id": token_id, "logprob": logprob} for token_id, logprob in self.top]
        return {"token_id": self.token_id, "logprob": self.logprob, "top": top}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOutput:
    """One finished (or aborted) output."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    """"stop", "length", or "abort" where it was cancelled."""
    stop_reason: int | str | None = None
    """The stop token or stop string that ended it; None for the model's own EOS."""
    usage: Usage
    speculation: Speculation
    timing: Timing
    settings: Mapping[str, object] = field(default_factory=dict)
    """Every effective value, defaults of the checkpoint included."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    """One for each token of `token_ids`, if asked for."""
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    """One for each prompt token, if asked for; None for the first, which nothing precedes."""
    index: int = 0
    """Which of the `n` outputs of its prompt this is."""
    prompt_token_ids: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints: plain JSON types, numbers that are not finite as null.

        `logprobs`, `prompt_logprobs` and `warnings` are there only if there are any.
        """
        report: dict[str, Any] = {
            "text": self.text,
            "token_ids": self.token_ids,
            "finish_reason": self.finish_reason,
            "stop_reason": self.stop_reason,
            "usage": self.usage.to_json(),
            "speculation": self.speculation.to_json(),
            "timing": self.timing.to_json(),
            "settings": self.settings,
        }
        for name, logprobs in (("logprobs", self.logprobs), ("prompt_logprobs", self.prompt_logprobs)):
            if logprobs is not None:
                report[name] = [entry and entry.to_json() for entry in logprobs]
        if self.warnings:
            report["warnings"] = self.warnings
        return {name: _plain(value) for name, value in report.items()}


class Piece(NamedTuple):
    """The text that one token brought (maybe none), and whether a drafter had proposed that token."""

    text: str
    token_id: int
    drafted: bool


class StreamChunk(NamedTuple):
    """What one round added to a stream. The texts of all chunks join to the text of the output."""

    text: str
    token_ids: tuple[int, ...]
    pieces: tuple[Piece, ...]
    """One for each token; they join to `text`, but for what an abort let go last."""
    output: GenerationOutput | None = None
    """The whole, in the last chunk only."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    """One for each token, if asked for."""
    drafted: int = 0
    """How many draft nodes were verified in that round."""
    drafter: str = "none"
    """Who was to draft for it; of "auto" the one chosen by then."""


class TextStream(Iterator[StreamChunk]):
    """The chunks of one request, as they are committed. `close` cancels it; so does dropping it."""

    def __init__(self, chunks: Generator[StreamChunk, None, None], so_far: Callable[[], GenerationOutput]) -> None:
        self._chunks, self._so_far = chunks, so_far

    def __next__(self) -> StreamChunk:
        return next(self._chunks)

    def close(self) -> None:
        """Ends the request at what it has written."""
        self._chunks.close()

    @property
    def output(self) -> GenerationOutput:
        """What it has written so far; the finish reason is "abort" unless it has come to its end."""
        return self._so_far()


class BrokenOff(GlimpseError):
    """Some of the outputs asked for together ended in an error; those that did not are kept here."""

    def __init__(self, outputs: Sequence[GenerationOutput | None], reason: GlimpseError) -> None:
        self.outputs = tuple(outputs)
        """In the order asked for; None for one that broke off."""
        broken = self.outputs.count(None)
        super().__init__(f"{broken} of {len(self.outputs)} texts broke off: {reason}")


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two outputs part: the first position whose tokens differ (or that only one of them has)."""

    position: int
    margin: float | None
    """How far apart the plain path had the two tokens (log probability, plus noise when sampling), if known."""

    def to_json(self) -> dict[str, object]:
        """The `first_divergence` object of `compare --json`."""
        return {"position": self.position, "margin": self.margin}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Plain and speculative decoding of one prompt in one process."""

    baseline: GenerationOutput
    speculative: GenerationOutput
    speedup: float | None
    """Speculative over plain decode speed, the median of the pairs run."""
    predicted_speedup: float | None = None
    margin: float | None = None
    """See `Divergence.margin`."""

    @property
    def identical(self) -> bool:
        """Whether the token ids are the same."""
        return self.baseline.token_ids == self.speculative.token_ids

    @property
    def first_divergence(self) -> Divergence | None:
        """Where the token ids part; None if they are identical."""
        position = first_difference(self.baseline.token_ids, self.speculative.token_ids)
        return None if position is None else Divergence(position, self.margin)

    def to_json(self) -> dict[str, Any]:
        """The object that `compare --json` prints."""
        divergence = self.first_divergence
        report = {
            "baseline": self.baseline.to_json(),
            "speculative": self.speculative.to_json(),
            "identical": self.identical,
            "first_divergence": divergence and divergence.to_json(),
            "speedup": self.speedup,
            "predicted_speedup": self.predicted_speedup,
        }
        return {name: _plain(value) for name, value in report.items()}


def first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    """The first position at which two token lists differ, be it that one of them has ended; None if they are equal."""
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return position
    return None if len(left) == len(right) else min(len(left), len(right))


def _plain(value: object) -> object:
    """`value` in JSON's own types; what JSON has no type for (paths, dtypes, devices) by its name."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):  # an enumeration's value, not the enumeration
        return str.__str__(value)
    if hasattr(value, "tolist"):  # numpy and torch numbers and arrays
        return _plain(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        entries = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_plain(entry) for entry in entries]
    return str(value)
