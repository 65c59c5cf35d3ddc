"""What would otherwise be waited for by the first request: graphs and kernels, or the loops of retrieval drafters."""

from __future__ import annotations

import logging

from glimpse.engine.options import EngineOptions
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams

_LOG = logging.getLogger("glimpse.serve")
_ALL = "auto"
"""The drafter that has every compiled loop within it."""
_TOKENS = 8


def warm(llm: LLM) -> None:
    """Makes ready what the steps of an LLM will need, and says so.

    On a GPU: graphs that cover whatever steps may come, and what its own drafter compiles (`LLM.warm_up`). Else a few
    tokens are drafted with every compiled loop; nothing of it is left but the machine code. That is up to half a minute
    the first time on a machine, where numba compiles; with its files there, below a second. Without it, whoever asks
    first for such a drafter stops everyone's steps for so long.
    """
    if llm.loaded.pool.device.type != "cpu":
        _LOG.info(
            "making ready what drafter %r will need; --cold-start leaves that to the first requests",
            llm.options.drafter,
        )
        _LOG.info("ready: %s", llm.warm_up())
        return
    _LOG.info("making the loops of retrieval drafters ready")
    prompt = [1, 2, 3, 1, 2, 3, 1, 2][: max(1, llm.context_length - _TOKENS)]
    trial = LLM.over(llm.loaded, EngineOptions(_ALL, exact=llm.options.exact, prefix_reuse=False))
    trial.generate([prompt], SamplingParams(max_tokens=_TOKENS, temperature=0.0, seed=0, ignore_eos=True))
