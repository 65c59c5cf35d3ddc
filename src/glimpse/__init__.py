"""Glimpse decodes long contexts faster from the checkpoint you already have: the same output, sooner.

Names are loaded when first used, so that `glimpse --help` does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glimpse.async_llm import AsyncLLM as AsyncLLM
    from glimpse.errors import ArgumentError as ArgumentError
    from glimpse.errors import GlimpseError as GlimpseError
    from glimpse.errors import ModelError as ModelError
    from glimpse.llm import LLM as LLM
    from glimpse.outputs import BrokenOff as BrokenOff
    from glimpse.outputs import Comparison as Comparison
    from glimpse.outputs import GenerationOutput as GenerationOutput
    from glimpse.outputs import StreamChunk as StreamChunk
    from glimpse.sampling.params import SamplingParams as SamplingParams

_HOMES = {
    "AsyncLLM": "glimpse.async_llm",
    "ArgumentError": "glimpse.errors",
    "GlimpseError": "glimpse.errors",
    "ModelError": "glimpse.errors",
    "LLM": "glimpse.llm",
    "BrokenOff": "glimpse.outputs",
    "Comparison": "glimpse.outputs",
    "GenerationOutput": "glimpse.outputs",
    "StreamChunk": "glimpse.outputs",
    "SamplingParams": "glimpse.sampling.params",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'glimpse' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
