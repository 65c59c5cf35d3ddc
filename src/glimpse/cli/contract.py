"""What the commands need of `glimpse.LLM`: the seam that the tests' stand-in fills too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from glimpse.outputs import Comparison, GenerationOutput, StreamChunk, TextStream
    from glimpse.sampling.params import SamplingParams

Progress = Callable[[str, int, int], None]
"""progress(stage, done, total); stages are "download", "weights" and "prefill". A total of 0 means unknown."""


class Tokenizer(Protocol):
    """The part of `model.Tokenizer` that prompts need."""

    @property
    def has_chat_template(self) -> bool:
        """Whether `chat` works."""

    def encode(self, text: str, *, most: int | None = None) -> list[int]:
        """Token ids of plain text, special tokens added as the checkpoint wants; ArgumentError where they cannot be
        `most`."""

    def chat(self, messages: Sequence[Mapping[str, str]], *, most: int | None = None) -> list[int]:
        """Token ids of a conversation, ready for the answer; ArgumentError as from `encode`."""


class Spec(Protocol):
    """The part of `model.DecoderSpec` that says what a step reads."""

    def step_weight_bytes(self, dtype: Any) -> int:
        """W: the weights that a step reads."""

    def kv_bytes_per_token(self, dtype: Any) -> int:
        """The cache of one position, all layers."""


class Model(Protocol):
    """The part of `LLM` that the commands use."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer."""

    @property
    def loaded(self) -> Any:
        """The checkpoint in memory (`glimpse.engine.loaded.Loaded`)."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Every effective value; `budget`, `dtype` and `context_length` among them."""

    @property
    def spec(self) -> Spec:
        """The checkpoint's shape."""

    def stream(self, prompt: Sequence[int], params: SamplingParams) -> TextStream:
        """Chunks as they are written; closing the iterator cancels."""

    def generate(self, prompts: Sequence[int], params: SamplingParams) -> Sequence[GenerationOutput]:
        """The `n` finished texts of one prompt."""

    def compare(
        self, prompt: Sequence[int], params: SamplingParams, *, on_chunk: Callable[[StreamChunk], None]
    ) -> Comparison:
        """Both ways, the speculative one first; `on_chunk` hears its text as it is written."""

    def close(self) -> None:
        """Give back memory and threads."""
