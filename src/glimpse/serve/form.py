"""How the chunks of a request become the bodies of an API."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from glimpse.outputs import GenerationOutput, StreamChunk
from glimpse.serve.origin import glimpse_of

Json = dict[str, Any]


class Form(Protocol):
    """The choices of one request, whole or in parts."""

    head: Head

    def opening(self) -> Iterator[Json]:
        """Choices that are told before any text."""

    def part(self, index: int, chunk: StreamChunk) -> Iterator[Json]:
        """Choices of a streamed chunk, each for a part of its own; the last has the chunk's tokens."""

    def whole(self, index: int, output: GenerationOutput) -> Json:
        """The choice of a finished text."""


@dataclass(frozen=True, slots=True)
class Head:
    """What every body of an answer begins with."""

    model: str
    prefix: str
    kind: str
    """`object` of a whole answer; a streamed part's is `part_kind`."""
    part_kind: str
    usage: bool
    """Whether a stream ends with the usage."""
    origins: bool
    """Whether chunks say where every token came from."""
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, choices: Sequence[Json], usage: Json) -> Json:
        """A whole answer."""
        return self._base(self.kind) | {"choices": list(choices), "usage": usage}

    def part(self, choice: Json, chunk: StreamChunk | None) -> Json:
        """A streamed part."""
        body = self._base(self.part_kind) | {"choices": [choice]}
        if self.usage:
            body["usage"] = None
        return self._with_origins(body, chunk)

    def last(self, usage: Json) -> Json:
        """The part that has the usage."""
        return self._with_origins(self._base(self.part_kind) | {"choices": [], "usage": usage}, None)

    def _base(self, kind: str) -> Json:
        return {
            "id": f"{self.prefix}-{self.identity}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": None,
        }

    def _with_origins(self, body: Json, chunk: StreamChunk | None) -> Json:
        if self.origins:
            body["glimpse"] = {"tokens": [], "gamma": None} if chunk is None else glimpse_of(chunk)
        return body
