"""From the API's options to `SamplingParams`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from glimpse.sampling.params import SamplingParams
from glimpse.serve.schemas import ChatBody, CompletionBody, Generation
from glimpse.serve.structured import Grammar, grammar_of

_SHARED = tuple(
    field.name
    for field in fields(SamplingParams)
    if field.name in Generation.model_fields and field.name not in ("n", "max_tokens")
)
_COMPLETION_TOKENS = 16
"""`max_tokens` of a completion that sets none, as in the OpenAI API; a chat goes on until the model ends it."""


def completion_params(body: CompletionBody) -> SamplingParams:
    """Of each text of a completion. Raises ArgumentError naming the option that is out of range."""
    most = _COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    prompt_logprobs = body.logprobs if body.echo else None
    grammar = grammar_of(body.response_format)
    return _params(body, grammar, max_tokens=most, logprobs=body.logprobs, prompt_logprobs=prompt_logprobs)


def chat_params(body: ChatBody, grammar: Grammar | None) -> SamplingParams:
    """Of each answer of a chat, which must be of a grammar. Raises as `completion_params`."""
    most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    return _params(body, grammar, max_tokens=most, logprobs=(body.top_logprobs or 0) if body.logprobs else None)


def _params(body: Generation, grammar: Grammar | None, **own: Any) -> SamplingParams:
    shared = {name: getattr(body, name) for name in _SHARED}
    return SamplingParams(grammar=grammar, **shared, **own)
