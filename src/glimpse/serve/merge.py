"""Several streams as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

Item = TypeVar("Item")
_END = object()


async def merged(sources: Sequence[AsyncGenerator[Item, None]]) -> AsyncGenerator[tuple[int, Item], None]:
    """(which source, item) as they come. Raises what the first source to fail raises; closing it closes all of them."""
    inbox: asyncio.Queue[tuple[int, object]] = asyncio.Queue()

    async def read(index: int, source: AsyncGenerator[Item, None]) -> None:
        try:
            async with aclosing(source):
                async for item in source:
                    inbox.put_nowait((index, item))
            inbox.put_nowait((index, _END))
        except Exception as error:
            inbox.put_nowait((index, error))

    tasks = [asyncio.create_task(read(index, source)) for index, source in enumerate(sources)]
    left = len(tasks)
    try:
        while left:
            index, item = await inbox.get()
            if item is _END:
                left -= 1
            elif isinstance(item, Exception):
                raise item
            else:
                yield index, item  # type: ignore[misc]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
