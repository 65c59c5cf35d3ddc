"""One request on its way through the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glimpse.cache.prefix import Key
from glimpse.engine.commit import Commit, Committer
from glimpse.errors import GlimpseError
from glimpse.outputs import TokenLogprob
from glimpse.sampling.params import ResolvedParams
from glimpse.speculation import Speculation


@dataclass(slots=True)
class Clock:
    """When a request was admitted, gave its first token, and ended (seconds of time.perf_counter)."""

    admitted: float = 0.0
    first_token: float = 0.0
    ended: float = 0.0

    def mark_tokens(self) -> None:
        """The first tokens end the prefill."""
        now = time.perf_counter()
        self.first_token, self.ended = self.first_token or now, now


@dataclass(slots=True, eq=False)
class Request:
    """What was asked, and what has come of it so far."""

    prompt: list[int]
    params: ResolvedParams
    committer: Committer
    speculation: Speculation
    limit: int
    """The length (tokens, prompt included) that it may reach."""
    ids: NDArray[np.int64]
    """[prompt]: the prompt once more. Converting a list of thousands takes longer than looking its pages up."""
    index: int = 0
    """Which of the `n` outputs of its prompt this is."""
    clock: Clock = field(default_factory=Clock)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob | None] = field(default_factory=list)
    error: GlimpseError | None = None
    """Why it ended without an output; its caller raises it."""
    keep: bool = False
    """Whether the pages of its prompt are to be kept when it has ended, and under which key they are."""
    kept: Key | None = None
    arrival: int = 0
    """Its place among all requests that were ever queued, from 1 on."""
    preempted: int = 0
    """How often it was put back into the queue."""
    hear: Callable[[Progress], None] | None = None
    """Told of every commit, in the step that makes it."""

    @property
    def length(self) -> int:
        """Tokens of its prompt and of what it has written."""
        return len(self.prompt) + len(self.committer.token_ids)

    @property
    def finished(self) -> bool:
        """No more tokens will come."""
        return self.error is not None or self.committer.finish_reason is not None


class Progress(NamedTuple):
    """What one step added to a request."""

    request: Request
    commit: Commit
    accepted: int
    """How many of the committed tokens, from the first on, had been drafted."""
    drafted: int = 0
    """How many draft nodes the step verified for them."""
