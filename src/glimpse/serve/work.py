"""One request at work: its texts go through an engine together, and are counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

from glimpse.async_llm import AsyncLLM
from glimpse.engine.options import EngineOptions
from glimpse.outputs import GenerationOutput, StreamChunk
from glimpse.sampling.noise import child_seed
from glimpse.sampling.params import SamplingParams
from glimpse.serve.merge import merged
from glimpse.serve.served import Served
from glimpse.serve.usage import Stopwatch, usage_of

Chunks = AsyncGenerator[tuple[int, StreamChunk], None]


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
    async def open(self) -> AsyncIterator[Chunks]:
        """The chunks of all texts, each with its text's index; leaving the block ends what is still under way.

        Raises ApiError where there is no room, ArgumentError for a prompt or parameters that the engine refuses: both
        before anything has begun.
        """
        with self.served.gate.enter(len(self.prompts) * self.n):
            async with self.served.ways.engine(self.options) as engine:
                for ids in self.prompts:
                    await asyncio.to_thread(engine.check, ids, self.params)
                async with aclosing(self._chunks(engine)) as chunks:
                    yield chunks

    @property
    def usage(self) -> dict[str, object]:
        """Of the texts that have ended."""
        ended = [self.outputs[index] for index in sorted(self.outputs)]
        return usage_of(ended, [len(ids) for ids in self.prompts], self.watch)

    async def _chunks(self, engine: AsyncLLM) -> Chunks:
        metrics = self.served.metrics.of(self.options.drafter, self.options.lossy)
        sources = [
            engine.generate(ids, self._params(index)) for ids in self.prompts for index in range(self.n)
        ]  # fmt: skip
        async with aclosing(merged(sources)) as chunks:
            async for index, chunk in chunks:
                if chunk.token_ids:
                    metrics.committed(chunk, self.watch)
                if chunk.output is not None:
                    self.outputs[index] = chunk.output
                    if index % self.n == 0:  # its texts share what was read of a prompt
                        metrics.read(chunk.output.usage.prompt_tokens)
                    metrics.ended(chunk.output, self.watch)
                    self.served.gate.took(self.watch.elapsed)
                yield index, chunk

    def _params(self, index: int) -> SamplingParams:
        seed = self.params.seed
        return replace(self.params, seed=None if seed is None else child_seed(seed, index))
