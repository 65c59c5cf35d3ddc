"""Several rounds of a text as one chunk."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from glimpse.async_llm import Batch
from glimpse.outputs import StreamChunk


def merged(batch: Batch) -> Batch:
    """One chunk for each text of a batch, which says what all of its own say but for where tokens came from."""
    if len(batch) == 1:
        return batch
    found: dict[int, list[StreamChunk]] = {}
    for index, chunk in batch:
        found.setdefault(index, []).append(chunk)
    return [(index, _one(chunks)) for index, chunks in found.items()]


def _one(chunks: Sequence[StreamChunk]) -> StreamChunk:
    if len(chunks) == 1:
        return chunks[0]
    logprobs = [chunk.logprobs for chunk in chunks if chunk.logprobs is not None]
    return chunks[-1]._replace(
        text="".join([chunk.text for chunk in chunks]),
        token_ids=tuple(chain.from_iterable(chunk.token_ids for chunk in chunks)),
        pieces=tuple(chain.from_iterable(chunk.pieces for chunk in chunks)),
        logprobs=tuple(chain.from_iterable(logprobs)) if logprobs else None,
        drafted=sum(chunk.drafted for chunk in chunks),
    )
