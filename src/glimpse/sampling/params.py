"""What a user asks of one request's sampling, and what that amounts to with the checkpoint's defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from glimpse.errors import ArgumentError
from glimpse.sampling import checks
from glimpse.sampling.noise import child_seed

_TOKENS = checks.Integer(0)
MOST_OUTPUTS = 1024
"""Of one request: each has its own row, text and counts from the moment it is asked for."""

CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "max_tokens": checks.Integer(-1, note=" (-1: up to the end of text or of the context)"),
    "min_tokens": _TOKENS,
    # Bounds that no logit of a working model overflows float32 with: its scores must not become NaN.
    "temperature": checks.Number(1e-6, 1e6, zero="greedy"),
    "top_p": checks.Number(0, 1, open_low=True),
    "top_k": checks.Integer(-1, note=" (0 or -1: off)"),
    "min_p": checks.Number(0, 1),
    "repetition_penalty": checks.Number(1e-3, 1e3),
    "frequency_penalty": checks.Number(-2, 2),
    "presence_penalty": checks.Number(-2, 2),
    "logit_bias": checks.biases,
    "stop": checks.strings,
    "stop_token_ids": checks.token_ids,
    "ignore_eos": checks.flag,
    "bad_words": checks.words,
    "suppress_tokens": checks.token_ids,
    "seed": checks.Integer(-(1 << 63), (1 << 64) - 1),
    "logprobs": _TOKENS,
    "prompt_logprobs": _TOKENS,
    "n": checks.Integer(1, MOST_OUTPUTS),
    "skip_special_tokens": checks.flag,
    "include_stop_str_in_output": checks.flag,
    "grammar": checks.grammar,
}


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """The options of one request. None means unset: `resolve` fills it in.

    Raises ArgumentError for a value of a wrong type or out of range, and for values that contradict one another.
    """

    max_tokens: int | None = None
    """At most this many output tokens; None or -1: up to the end of text or of the context; 0: nothing."""
    temperature: float | None = None
    """Divides the logits; 0 is greedy, else in [1e-6, 1e6]. Unset: the checkpoint's, else 1."""
    top_p: float | None = None
    """Keep the fewest most probable tokens (of what top_k left) whose mass reaches this, in (0, 1]."""
    top_k: int | None = None
    """Keep the k most probable tokens; 0 or -1: all."""
    min_p: float | None = None
    """Keep tokens at least this share as probable as the most probable one, in [0, 1]."""
    repetition_penalty: float | None = None
    """Divides positive and multiplies negative logits of tokens in the prompt or output, in [1e-3, 1e3]; 1: off."""
    frequency_penalty: float | None = None
    """Subtracted from a logit once for each time its token was output, in [-2, 2]."""
    presence_penalty: float | None = None
    """Subtracted from the logits of tokens that were output at all, in [-2, 2]."""
    logit_bias: Mapping[int, float] | None = None
    """Added to the logits of single tokens."""
    stop: str | Sequence[str] | None = None
    """Text that ends the output."""
    stop_token_ids: Sequence[int] | None = None
    """Tokens that end the output."""
    min_tokens: int | None = None
    """No end-of-text or stop token before this many output tokens."""
    ignore_eos: bool | None = None
    """Go on past the end-of-text tokens."""
    bad_words: Sequence[str | Sequence[int]] | None = None
    """Text or token sequences that must not be written."""
    suppress_tokens: Sequence[int] | None = None
    """Tokens that must not be written."""
    seed: int | None = None
    """-2^63 to 2^64 - 1, of which the low 64 bits count; unset: drawn from the system's entropy by `resolve`."""
    logprobs: int | None = None
    """Report each output token's log-probability, and this many of the most probable tokens."""
    prompt_logprobs: int | None = None
    """The same for the prompt's tokens."""
    n: int | None = None
    """How many outputs, at most 1,024, each with a seed of its own (`glimpse.sampling.noise.child_seed`)."""
    skip_special_tokens: bool | None = None
    """Leave special tokens out of the text; unset: True."""
    include_stop_str_in_output: bool | None = None
    """Keep the stop text at the end of the output; unset: False."""
    grammar: Mapping[str, Any] | None = None
    """What the text must be: `{"json_schema": SCHEMA}`, `{"regex": PATTERN}` or `{"ebnf": RULES}` (in xgrammar's
    form, from the rule "root" on). JSON is written without line breaks or indents. Needs the extra `serve`."""

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(name, value))
        longest = -1 if self.max_tokens is None else self.max_tokens
        if self.min_tokens is not None and 0 <= longest < self.min_tokens:
            raise ArgumentError(f"min_tokens must be at most max_tokens ({longest}), not {self.min_tokens}")
        if self.grammar is not None:
            self._refuse_beside_grammar()

    def resolve(self, generation_defaults: Mapping[str, Any] | None = None, **context: Any) -> ResolvedParams:
        """Every value effective; see `glimpse.sampling.resolve.resolve`, which says what `context` may be."""
        from glimpse.sampling.resolve import resolve  # the two files need one another

        return resolve(self, generation_defaults, **context)

    def _refuse_beside_grammar(self) -> None:
        """A grammar says by itself where a text may end and what it may hold."""
        for name in ("ignore_eos", "min_tokens", "bad_words", "suppress_tokens"):
            if getattr(self, name):
                raise ArgumentError(f"{name} {getattr(self, name)!r} contradicts grammar; leave one of them out")

    def as_dict(self) -> dict[str, Any]:
        """Every option and its value, in plain types that JSON can hold."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, kw_only=True)
class ResolvedParams(SamplingParams):
    """Parameters in which every value is the effective one; made by `glimpse.sampling.resolve`.

    `max_tokens` None: no limit but the context's (only when `resolve` was not told the room). `top_k` 0: off.
    `logprobs` and `prompt_logprobs` None: none asked.
    """

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    logit_bias: Mapping[int, float]
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    min_tokens: int
    ignore_eos: bool
    bad_words: tuple[tuple[int, ...], ...]
    suppress_tokens: tuple[int, ...]
    seed: int
    n: int
    skip_special_tokens: bool
    include_stop_str_in_output: bool

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is always taken."""
        return self.temperature == 0

    def child(self, index: int) -> ResolvedParams:
        """The parameters of the `index`-th of the n outputs: a seed of its own, and n = 1."""
        return replace(self, seed=child_seed(self.seed, index), n=1)
