"""What a model takes of a device's memory: known before anything is allocated, from sizes alone.

Keys and values of waiting requests are no demand: where the cache is smaller than all rows at full length, admission
waits. What must be there is the weights, working memory, every row's own state, and the cache of one longest request.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from glimpse.errors import GlimpseError
from glimpse.model.spec import DecoderSpec

PAGE_SIZE = 16
USABLE = 0.9
"""Share of what is free that is taken at most; fragments and other programs need the rest."""
_TOKEN_ID = 8
_SCORES, _SLOT = 2, 4
"""Recall state of each position, layer and KV head (`DeviceRecall`): so many scores, and bytes of at most one slot."""
_WORKSPACE = 1 << 30
"""CUDA graphs and what cuBLAS and the kernels keep for themselves."""
_READ = 4096
"""Prompt tokens in one step."""
_LAST_QUERIES = 16
"""Queries whose attention weights are formed at the end of a prompt: logits, weights and mask, float32."""
_LOGITS = 16
"""Logits of so many tokens a row at once, as the head gives them and in float32."""
_RAN_OUT = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory")
_WORTH_SAYING = 64
"""A shorter context is no advice."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Memory:
    """What a device offers."""

    said: str
    """What there is, in words: who has how much."""
    usable: int
    """How many bytes of it may be taken, weights included."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a model takes, in bytes."""

    weights: int
    workspace: int
    position: int
    """Keys and values of one position."""
    reading: int
    """Working memory for each position of the longest prompt."""
    row: int
    row_position: int
    """Of every row, for each position it could hold, whether it does or not."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A model with rows of a context, on a device."""

    costs: Costs
    memory: Memory
    context: int
    slots: int

    @property
    def needed(self) -> int:
        """Bytes with the cache of one request of full length."""
        return self.memory.usable - self._left + self.costs.position * self.context

    @property
    def pages(self) -> int:
        """Pages of the cache: all rows at full length, or what fits. Raises as `check` does."""
        self.check()
        return min(self.slots * _pages(self.context), self._affordable)

    def check(self) -> None:
        """Raises GlimpseError if not even one row fits, saying what is needed, what there is, and what would fit."""
        if self._affordable < _pages(self.context):
            raise GlimpseError(self._refusal())

    @property
    def most_slots(self) -> int:
        """The largest max_batch_size at this context; 0 if not even one row fits."""
        costs = self.costs
        room = self._free - self.context * costs.reading - _pages(self.context) * PAGE_SIZE * costs.position
        return max(0, room // (costs.row + self.context * costs.row_position))

    @property
    def most_context(self) -> int:
        """The largest max_context with so many rows, in whole pages; 0 if not even one page fits."""
        costs = self.costs
        each = costs.position + costs.reading + self.slots * costs.row_position
        return max(0, (self._free - self.slots * costs.row) // each // PAGE_SIZE * PAGE_SIZE)

    @property
    def _affordable(self) -> int:
        """Pages of the cache that fit."""
        return self._left // (self.costs.position * PAGE_SIZE)

    @property
    def _free(self) -> int:
        """Bytes beside the weights and the workspace."""
        return self.memory.usable - self.costs.weights - self.costs.workspace

    @property
    def _left(self) -> int:
        """Bytes for the cache."""
        costs = self.costs
        return self._free - self.context * costs.reading - self.slots * (costs.row + self.context * costs.row_position)

    def _refusal(self) -> str:
        costs, memory = self.costs, self.memory
        there = f"{memory.said}, of which {_gib(memory.usable)} may be used"
        if self._free <= 0 and costs.workspace:
            both = f"the weights ({_gib(costs.weights)}) and {_gib(costs.workspace)} of working memory"
            return f"{both} do not fit: {there}; a smaller model or dtype may, or device cpu"
        if self._free <= 0:
            return f"the weights ({_gib(costs.weights)}) do not fit: {there}; a smaller model or dtype may"
        asked = f"max_context {self.context} with max_batch_size {self.slots} needs {_gib(self.needed)} of memory"
        return f"{asked} with the weights, but {there}; {self._advice()}"

    def _advice(self) -> str:
        ways = []
        if self.most_slots:
            ways.append(f"max_batch_size at most {self.most_slots} at this context")
        if self.most_context >= _WORTH_SAYING:
            ways.append(f"max_context at most {self.most_context} with this batch")
        one = Demand(self.costs, self.memory, self.context, 1).most_context
        if not ways and one >= _WORTH_SAYING:
            ways.append(f"max_batch_size 1 with max_context at most {one}")
        return f"what fits is {' or '.join(ways)}" if ways else "no context fits beside the weights"


def costs_of(spec: DecoderSpec, dtype: torch.dtype, device: torch.device, scores: torch.dtype) -> Costs:
    """What a model in `dtype` takes on a device, where drafters' importance scores are kept in `scores`.

    On a CPU working memory is small and comes and goes.
    """
    weights, position = spec.weight_bytes(dtype), spec.kv_bytes_per_token(dtype)
    if device.type == "cpu":
        return Costs(weights, 0, position, 0, 0, _TOKEN_ID)
    # One layer's keys and values, gathered and for every query head once more; the keys in float32 too.
    both = spec.heads + spec.kv_heads
    activations = 2 * spec.hidden_size + spec.qkv_rows + 3 * spec.intermediate_size
    return Costs(
        weights=weights,
        workspace=_WORKSPACE + _READ * activations * dtype.itemsize,
        position=position,
        reading=3 * 4 * _LAST_QUERIES * spec.heads + both * spec.head_dim * (4 + 2 * dtype.itemsize),
        row=_LOGITS * spec.vocab_size * (4 + dtype.itemsize),
        row_position=_TOKEN_ID + (_SCORES * scores.itemsize + _SLOT) * spec.layers * spec.kv_heads,
    )


def memory_of(device: torch.device, weights: int, *, loaded: bool) -> Memory:
    """What there is for a model of `weights` bytes, which may be `loaded` already.

    On a CPU what other programs use is not known: the cache gets half of the machine's memory at most.
    """
    if device.type == "cpu":
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Memory(f"this machine has {_gib(there)}", min(there // 2 + weights, int(there * USABLE)))
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info(device)[0] + (weights if loaded else 0)
    return Memory(f"{_name(device)} has {_gib(free)} free", int(free * USABLE))


def within_memory(action: Callable[[], _Result], device: torch.device, advice: str) -> _Result:
    """`action()`. Running out of memory becomes one GlimpseError with the `advice`; what was half made is freed."""
    try:
        return action()
    except RuntimeError as error:
        if not _ran_out(error):
            raise
    # Behind the handler: the error's frames, and what they held, are gone.
    free_unused(device)
    raise GlimpseError(f"out of memory ({memory_of(device, 0, loaded=False).said}): {advice}")


def free_unused(device: torch.device) -> None:
    """Gives memory that nothing refers to back to the GPU, so that other programs can have it."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def _ran_out(error: RuntimeError) -> bool:
    """Whether torch, the driver (a graph's memory) or cuBLAS (its workspace) could not get memory."""
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in _RAN_OUT)


def _name(device: torch.device) -> str:
    return f"{torch.cuda.get_device_name(device)} ({device})"


def _pages(context: int) -> int:
    return -(-context // PAGE_SIZE)


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
