"""Turns of one way to decode a whole batch, timed while all of its rows decode.

The first turn reads the prompts and captures the graphs; the others find the prompts in the cache, so that their rows
begin together. Read anew, the prompts of 64 rows of 8,000 tokens take longer than the first row takes to end, and no
time is left in which all decode.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from benchmarks.gpu_retrieval import Asked, run
from glimpse.engine.face import EngineFace
from glimpse.engine.loaded import Loaded
from glimpse.engine.memory import free_unused
from glimpse.errors import GlimpseError

BEGUN = 32
"""Tokens that rows may have written before the last one has begun; rows need room for so many more."""


def turns_of(
    loaded: Loaded, make: Callable[[], EngineFace], asked: Asked, law: str, tokens: int, turns: int
) -> list[dict[str, Any]]:
    """So many turns of the engine that `make` makes over `loaded`, each as `gpu_retrieval.run` gives it.

    Rows write `tokens` and BEGUN more. Raises GlimpseError where a turn had no time in which all rows decoded.
    """
    engine = make()
    found = [run(loaded, engine, asked, law, tokens + BEGUN) for _ in range(turns + 1)][1:]
    # What the next way reads and captures needs the room.
    del engine
    gc.collect()
    free_unused(loaded.pool.device)
    if not all(turn["tokens"] for turn in found):
        raise GlimpseError(
            f"no time in which all {len(asked.prompts)} rows decoded: the first had written {tokens + BEGUN} tokens "
            "before the last had begun; ask for more tokens or fewer rows"
        )
    return found
