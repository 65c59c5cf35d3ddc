"""One request at work: its texts go through an engine together, and are counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

from glimpse.async_llm import AsyncLLM, Batch
from glimpse.engine.options import EngineOptions
from glimpse.outputs import GenerationOutput
from glimpse.sampling.noise import child_seed
from glimpse.sampling.params import SamplingParams
from glimpse.serve.metrics import DrafterMetrics
from glimpse.serve.served import Served
from glimpse.serve.usage import Stopwatch, usage_of

Batches = AsyncGenerator[Batch, None]
_SEND = 3e-4
"""Seconds between two parts of a stream for every text that is written meanwhile: to send one takes a tenth of a
millisecond (measured), as long as a GPU takes for a token of a small model, and the engine needs the interpreter."""
_LOOK = 0.1
"""Seconds between two looks at a text that is read when it is whole: it is counted as it comes."""


@dataclass(slots=True)
class Work:
    """`n` texts of each prompt (token ids), prompt after prompt, with the same parameters."""

    served: Served
    options: EngineOptions
    prompts: Sequence[list[int]]
    params: SamplingParams
    n: int
    watch: Stopwatch
    outputs: dict[int, GenerationOutput] = field(default_factory=dict)
    """Of the texts that have ended, by index."""

    @asynccontextmanager
    async def open(self, *, stream: bool) -> AsyncIterator[Batches]:
        """The chunks of all texts, each with its text's index, what has come meanwhile in one batch; leaving the block
        ends what is still under way.

        A text's beginning and end come at once, what is between them not oftener than is worth its while: for a
        `stream` by how many texts there are to be sent.

        Raises ApiError where there is no room, ArgumentError for a prompt or parameters that the engine refuses: both
        before anything has begun.
        """
        with self.served.gate.enter(len(self.prompts) * self.n):
            async with self.served.ways.engine(self.options) as engine:
                for ids in self.prompts:
                    await asyncio.to_thread(engine.check, ids, self.params)
                async with aclosing(self._batches(engine, self._between_sends if stream else lambda: _LOOK)) as batches:
                    yield batches

    @property
    def usage(self) -> dict[str, object]:
        """Of the texts that have ended."""
        ended = [self.outputs[index] for index in sorted(self.outputs)]
        return usage_of(ended, [len(ids) for ids in self.prompts], self.watch)

    async def _batches(self, engine: AsyncLLM, pause: Callable[[], float]) -> Batches:
        metrics = self.served.metrics.of(self.options.drafter, self.options.lossy)
        asked = [(ids, self._params(index)) for ids in self.prompts for index in range(self.n)]
        async with aclosing(engine.together(asked, pause=pause)) as batches:
            async for batch in batches:
                for index, chunk in batch:
                    if chunk.token_ids:
                        metrics.committed(chunk, self.watch)
                    if chunk.output is not None:
                        self._ended(index, chunk.output, metrics)
                yield batch

    def _ended(self, index: int, output: GenerationOutput, metrics: DrafterMetrics) -> None:
        self.outputs[index] = output
        if index % self.n == 0:  # its texts share what was read of a prompt
            metrics.read(output.usage.prompt_tokens)
        metrics.ended(output, self.watch)
        self.served.gate.took(self.watch.elapsed)

    def _between_sends(self) -> float:
        gate = self.served.gate
        return _SEND * min(gate.active, gate.rows)

    def _params(self, index: int) -> SamplingParams:
        seed = self.params.seed
        return replace(self.params, seed=None if seed is None else child_seed(seed, index))
