"""What would otherwise be waited for by the first request: the loops of retrieval drafters are compiled."""

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
    """Drafts for a few tokens with every compiled loop; nothing of it is left but the machine code.

    Up to half a minute the first time on a machine, where numba compiles; with its files there, below a second. Without
    it, whoever asks first for such a drafter stops everyone's steps for so long. On a GPU nothing is done: there an
    engine of its own would take memory that requests may need.
    """
    if llm.loaded.pool.device.type != "cpu":
        return
    _LOG.info("making the loops of retrieval drafters ready")
    prompt = [1, 2, 3, 1, 2, 3, 1, 2][: max(1, llm.context_length - _TOKENS)]
    trial = LLM.over(llm.loaded, EngineOptions(_ALL, exact=llm.options.exact, prefix_reuse=False))
    trial.generate([prompt], SamplingParams(max_tokens=_TOKENS, temperature=0.0, seed=0, ignore_eos=True))
