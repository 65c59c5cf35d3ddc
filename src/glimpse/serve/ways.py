"""Ways of decoding over the same weights and cache: requests may name another drafter than the server's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from glimpse.async_llm import AsyncLLM
from glimpse.drafting import DRAFTERS
from glimpse.engine.build import check_names, refuse_unused, with_adapter
from glimpse.engine.lossy import rule_of
from glimpse.engine.options import NAMES, EngineOptions
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.serve.errors import busy
from glimpse.serve.heap import Heap
from glimpse.serve.schemas import Generation
from glimpse.serve.settings import ServeSettings
from glimpse.serve.warming import warm


@dataclass(slots=True)
class Way:
    """An engine, and how many requests use it now."""

    engine: AsyncLLM
    users: int = 0


class Ways:
    """Engines by their options; the least recently used idle one gives way to another. For one event loop."""

    def __init__(self, llm: LLM, settings: ServeSettings) -> None:
        self._llm, self._settings = llm, settings
        self._lock, self.heap = asyncio.Lock(), Heap()
        self._ways: dict[EngineOptions, Way] = {llm.options: Way(AsyncLLM(llm))}
        self._gone = 0

    @property
    def engines(self) -> list[AsyncLLM]:
        """All that are ready."""
        return [way.engine for way in self._ways.values()]

    @property
    def preemptions(self) -> int:
        """How often requests were put back into a queue, on whatever engine."""
        return self._gone + sum(engine.preemptions for engine in self.engines)

    def options_of(self, body: Generation) -> EngineOptions:
        """What a request asks for, the server's own where it says nothing; an exact rule ends the server's own lossy
        mode. Raises ArgumentError, never later."""
        own = self._llm.options
        asked = {"drafter": body.drafter, "pacer": body.pacer, "acceptance": body.acceptance,
                 "lossy": body.lossy, "draft_tokens": body.max_draft}  # fmt: skip
        asked = {name: value for name, value in asked.items() if value is not None}
        if not asked:
            return own
        if asked.get("drafter", own.drafter) != own.drafter:
            # What only the server's drafter reads would be refused by another; its pacer may not go with it.
            own = EngineOptions(acceptance=own.acceptance, exact=own.exact, reserve=own.reserve,
                                prefix_reuse=own.prefix_reuse)  # fmt: skip
        elif own.lossy is not None and "acceptance" in asked:
            own = own.changed(lossy=None)
        options = own.changed(**asked)
        check_names(options)
        options = with_adapter(self._llm.loaded, options)
        # The server's own options need not be of use to it, but what was asked for must be.
        refuse_unused(EngineOptions().changed(**({"drafter": own.drafter} | asked)))
        self._refuse_lossy(options)
        return options

    @asynccontextmanager
    async def engine(self, options: EngineOptions) -> AsyncIterator[AsyncLLM]:
        """The engine of these options while the block runs. Raises ApiError (429) where too many others are at work."""
        way = self._ways.get(options)
        if way is None:
            async with self._lock:
                way = self._ways.get(options) or await self._make(options)
        # Nothing is waited for between finding it and using it, so it cannot be closed meanwhile.
        self._ways[options] = self._ways.pop(options)  # the last is the one used last
        way.users += 1
        try:
            yield way.engine
        finally:
            way.users -= 1

    async def close(self) -> None:
        """Ends every request and thread; the LLM itself stays open."""
        for engine in self.engines:
            await engine.close()
        self.heap.release()

    async def _make(self, options: EngineOptions) -> Way:
        await self._make_room()
        llm = await asyncio.to_thread(self._ready, options)
        way = self._ways[options] = Way(AsyncLLM(llm))
        self.heap.settle()
        return way

    def _ready(self, options: EngineOptions) -> LLM:
        """Steps of the ways there are go on between the captures of a new one's graphs."""
        llm = self._llm.variant(**{name: getattr(options, name) for name in NAMES})
        if not self._settings.cold_start and llm.loaded.pool.device.type == "cuda":
            warm(llm)
        return llm

    async def _make_room(self) -> None:
        if len(self._ways) < self._settings.max_ways:
            return
        idle = next((key for key, way in self._ways.items() if not way.users and key != self._llm.options), None)
        if idle is None:
            raise busy(f"{len(self._ways)} ways of decoding are at work, and more are not kept at once", 5)
        way = self._ways.pop(idle)
        self._gone += way.engine.preemptions
        await way.engine.close()
        del way
        self.heap.settle()  # a new engine needs the memory of the one that has gone

    def _refuse_lossy(self, options: EngineOptions) -> None:
        lossless = DRAFTERS.get(options.drafter).lossless and rule_of(options).lossless
        own = options.lossy is not None and options.lossy == self._llm.options.lossy
        if not (lossless or own or self._settings.allow_lossy):
            what = f"drafter {options.drafter!r}" if options.lossy is None else f"lossy {options.lossy!r}"
            raise ArgumentError(f"{what} changes the text; this server was not started with --allow-lossy")
