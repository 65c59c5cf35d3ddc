"""Where a token came from, in the words of the page: target, sparse, retrieval, lookup, or a drafter's own name."""

from __future__ import annotations

from functools import lru_cache

from glimpse.drafting import DRAFTERS
from glimpse.outputs import StreamChunk


@lru_cache(maxsize=64)
def source_of(drafter: str) -> str:
    """What a drafter's tokens are called: by what it does, so that a plug-in has its place too."""
    kind = DRAFTERS.get(drafter)
    if kind.needs_forward:
        return "sparse"
    return "retrieval" if kind.gives_tree or kind.stores else drafter


def glimpse_of(chunk: StreamChunk) -> dict[str, object]:
    """The `glimpse` object of a streamed chunk. `depth` counts from 1 within a draft; the target's own token has 0.

    `gamma` is how many draft tokens that round verified; null where it was a plain step.
    """
    source = source_of(chunk.drafter)
    tokens = [
        {"text": piece.text, "id": piece.token_id, "from": source if piece.drafted else "target",
         "depth": depth if piece.drafted else 0}
        for depth, piece in enumerate(chunk.pieces, 1)
    ]  # fmt: skip
    return {"tokens": tokens, "gamma": chunk.drafted or None}
