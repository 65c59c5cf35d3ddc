"""How the chunks of a request become the bodies of an API."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from glimpse.outputs import GenerationOutput, StreamChunk
from glimpse.serve.origin import glimpse_of

Json = dict[str, Any]
dumped = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode
"""JSON text of an object, made once for all: `json.dumps` with options makes an encoder each time."""

_NOWHERE: Json = {"tokens": [], "gamma": None}
"""Of a part without tokens."""


class Form(Protocol):
    """The choices of one request, whole or in parts."""

    head: Head

    def opening(self) -> Iterator[Json]:
        """Choices that are told before any text."""

    def part(self, index: int, chunk: StreamChunk) -> Iterator[Json]:
        """Choices of a streamed chunk, each for a part of its own; the last has the chunk's tokens."""

    def whole(self, index: int, output: GenerationOutput) -> Json:
        """The choice of a finished text."""


@dataclass(frozen=True)
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

    def part(self, choice: Json, chunk: StreamChunk | None) -> str:
        """The JSON text of a streamed part."""
        return self._part([choice], chunk)

    def last(self, usage: Json) -> str:
        """The part that has the usage, as JSON text."""
        return self._part([], None, usage)

    def _part(self, choices: Sequence[Json], chunk: StreamChunk | None, usage: Json | None = None) -> str:
        told = f',"usage":{dumped(usage)}' if self.usage else ""
        if self.origins:
            told += f',"glimpse":{dumped(_NOWHERE if chunk is None else glimpse_of(chunk))}'
        return f'{self._opening}"choices":{dumped(choices)}{told}}}'

    @cached_property
    def _opening(self) -> str:
        """What all streamed parts begin with."""
        return dumped(self._base(self.part_kind))[:-1] + ","

    def _base(self, kind: str) -> Json:
        return {
            "id": f"{self.prefix}-{self.identity}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": None,
        }
