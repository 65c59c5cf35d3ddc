"""The device engine under Triton's interpreter, behind an LLM whose own engine is the CPU's."""

from __future__ import annotations

from typing import Any

from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from tiny import write_tiny_checkpoint


def tiny_folder(folder, layers=1, **more):
    """One small layer, or a few."""
    return write_tiny_checkpoint(folder / "tiny", num_hidden_layers=layers, max_position_embeddings=128, **more)


def on_device(llm: LLM, **options: Any) -> LLM:
    """Another LLM over the same weights and cache, whose steps are the device's."""
    other = llm.variant(**options)
    other._engine = device_engine(make_parts(llm.loaded, other.options), other.options)
    return other


def prompts_of(llm, *lengths):
    """One prompt of each length, all with the same beginning."""
    ids = llm.tokenizer.encode("hello world, this is a test of the thing. " * 4)
    return [ids[:length] for length in lengths]


def ids_of(outputs):
    """The token ids of each."""
    return [list(output.token_ids) for output in outputs]


def greedy(tokens, **more):
    """Greedy, `tokens` whatever comes."""
    return SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True, **more)
