"""What decoding needs and a first request would wait for: graphs, kernels, the compiled loops of drafters."""

from __future__ import annotations

import time
from dataclasses import dataclass

from glimpse.engine.face import EngineFace
from glimpse.engine.loaded import Loaded
from glimpse.engine.stream import run_all
from glimpse.engine.submit import make_requests
from glimpse.sampling.params import SamplingParams

_TOKENS = 8
_PROMPTS = 700, 24
"""Tokens of the prompts that are tried out: more than one step of a narrow model's own kernels takes, and an end."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """What a warm-up has made."""

    graphs: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.graphs} graphs and what they need, in {self.seconds:.1f} s"


def warm_up(loaded: Loaded, engine: EngineFace) -> Warmed:
    """Captures the graphs that cover whatever steps may come, and decodes a few tokens, of which nothing is left.

    Steps of other engines over the same weights go on between two captures. An engine that keeps what requests wrote
    decodes none: it would keep them.
    """
    begun = time.perf_counter()
    graphs = engine.warm_up()
    if engine.options.suffix_store is None:
        _try_out(loaded, engine)
    return Warmed(graphs, time.perf_counter() - begun)


def _try_out(loaded: Loaded, engine: EngineFace) -> None:
    params = SamplingParams(max_tokens=_TOKENS, temperature=0.0, seed=0, ignore_eos=True)
    for length in _PROMPTS:
        prompt = ([1, 2, 3] * length)[: max(1, min(length, loaded.context - _TOKENS))]
        run_all(engine, make_requests(loaded, engine, prompt, params))


__all__ = ["Warmed", "warm_up"]
