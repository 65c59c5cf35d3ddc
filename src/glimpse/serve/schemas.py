"""What requests may hold. Types are strict; ranges are those of `SamplingParams`, which checks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from glimpse.serve.errors import refused
from glimpse.serve.refusals import CHAT, COMPLETION, Refusal, without_refused

_TOP = 20
"""Most alternatives of a token that logprobs may name, as in the OpenAI API."""
_MANY = 20_000
"""Most entries of a list of tokens: beyond it, checking them would hold up everyone's answers."""
_WORDS = 1000
"""Most words that must not be written, each of so many characters at most: they are looked for at every step."""
Ids = list[int]
FewIds = Annotated[Ids, Field(max_length=_MANY)]
Text = Annotated[str, Field(max_length=_WORDS)]


class Body(BaseModel):
    """A request's body: no unknown options, no silent conversions, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    refused: ClassVar[Mapping[str, Refusal]] = {}

    model: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_refused(cls, value: Any) -> Any:
        return without_refused(value, cls.refused) if isinstance(value, dict) else value


class StreamOptions(BaseModel):
    """`stream_options`."""

    model_config = ConfigDict(extra="forbid", strict=True)
    include_usage: bool = False
    include_obfuscation: bool = False

    @model_validator(mode="after")
    def _no_obfuscation(self) -> StreamOptions:
        if self.include_obfuscation:
            raise refused("stream_options.include_obfuscation", True, "chunks are not padded; leave it out")
        return self


class Generation(Body):
    """What both ways of asking have in common: OpenAI's options, more of `SamplingParams`, and how to draft."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: Annotated[int, Field(ge=1, le=128)] = 1
    stop: Text | Annotated[list[Text], Field(max_length=64)] | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=_MANY)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    response_format: dict[str, Any] | None = None

    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    stop_token_ids: FewIds | None = None
    bad_words: Annotated[list[Text], Field(max_length=_WORDS)] | None = None
    suppress_tokens: FewIds | None = None
    skip_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None

    drafter: str | None = None
    pacer: str | None = None
    acceptance: str | None = None
    lossy: str | None = None
    max_draft: int | None = None
    """The longest draft; the draft length itself with pacer "fixed"."""
    speculation: bool = False
    """Whether streamed chunks say where every token came from."""

    @model_validator(mode="after")
    def _options_of_streams(self) -> Generation:
        if self.stream_options is not None and not self.stream:
            raise refused("stream_options", "given", "only with stream true")
        return self


class CompletionBody(Generation):
    """POST /v1/completions."""

    refused: ClassVar[Mapping[str, Refusal]] = COMPLETION

    prompt: str | Ids | list[str] | list[Ids]
    echo: bool = False
    logprobs: Annotated[int, Field(ge=0, le=_TOP)] | None = None
    best_of: int | None = None

    @model_validator(mode="after")
    def _all_are_given(self) -> CompletionBody:
        if self.best_of not in (None, self.n):
            raise refused("best_of", self.best_of, f"all texts are given back, n = {self.n}; leave it out")
        if self.echo and self.logprobs is not None and self.stream:
            raise refused("echo", True, "not with logprobs and stream true together: a prompt's come with the end")
        if self.echo and self.logprobs is not None and self.max_tokens == 0:
            raise refused("max_tokens", 0, "at least 1 with echo and logprobs: a prompt is read to write a token")
        return self

    @property
    def prompts(self) -> list[str] | list[Ids]:
        """One prompt or several, as a list."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if not prompt:
            raise refused("prompt", prompt, "give at least one token or one prompt")
        return [prompt] if isinstance(prompt[0], int) else prompt  # type: ignore[list-item,return-value]


class ChatBody(Generation):
    """POST /v1/chat/completions."""

    refused: ClassVar[Mapping[str, Refusal]] = CHAT

    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=_TOP)] | None = None
    tools: Annotated[list[dict[str, Any]], Field(max_length=128)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None

    @model_validator(mode="after")
    def _of_one_mind(self) -> ChatBody:
        if self.top_logprobs is not None and not self.logprobs:
            raise refused("top_logprobs", self.top_logprobs, "only with logprobs true")
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise refused("max_tokens", self.max_tokens, f"max_completion_tokens is {self.max_completion_tokens}")
        return self


class TokenizeBody(Body):
    """POST /tokenize: a prompt, or messages by the chat template."""

    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool = True
    return_token_strs: bool = False


class DetokenizeBody(Body):
    """POST /detokenize."""

    tokens: Ids
