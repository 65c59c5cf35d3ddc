"""What all routes share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from glimpse.llm import LLM
from glimpse.model.tokenizer import Tokenizer
from glimpse.serve.errors import unknown_model
from glimpse.serve.gate import Gate
from glimpse.serve.metrics import Metrics
from glimpse.serve.settings import ServeSettings
from glimpse.serve.ways import Ways


@dataclass(slots=True)
class Served:
    """A model under its name, with its engines, its queue and its counters. For one event loop."""

    llm: LLM
    settings: ServeSettings
    ways: Ways
    gate: Gate
    metrics: Metrics
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def of(cls, llm: LLM, settings: ServeSettings) -> Served:
        """All that belongs to an open LLM."""
        ways = Ways(llm, settings)
        gate = Gate(llm.loaded.slots, settings.max_waiting)
        return cls(llm, settings, ways, gate, Metrics(settings.name, llm, ways))

    @property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's."""
        tokenizer: Tokenizer = self.llm.tokenizer
        return tokenizer

    def check_model(self, asked: str | None) -> None:
        """Raises ApiError (404) for another model than this one."""
        if asked is not None and asked != self.settings.name:
            raise unknown_model(asked, self.settings.name)
