"""Prompts from their first token on as graphs, where the host would take longer to launch a forward than the device to
run it.

Read as it comes, a prompt costs the host some twelve launches a layer, 15 ms for the demo model's 30, in which the
device works for two or three and all running rows wait. Which tokens, and how many, a graph is told by its buffers;
what is too much for a prompt is padding, behind its end where causal attention does not look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from glimpse.attention.triton.sizes import parted
from glimpse.engine.device.core import Core
from glimpse.engine.device.covering import PATIENCE, node_bucket
from glimpse.engine.device.graphs import Graphs, Step
from glimpse.engine.device.mail import upload
from glimpse.engine.device.prefill import CHUNK, QUERIES, Scores, weigh_all

KIND = "prompts"
LEAST = 64
"""Tokens that graphs are made for, at least."""
LAUNCHED = 4e12
"""Floating-point operations of linears that a device does while the host launches a forward: 5 to 10 ms. Beyond, a
graph brings nothing, and its padding costs."""


def most_of(core: Core) -> int:
    """The largest number of tokens that graphs are made for; 0: reading any prompt is mostly the device's work."""
    weights = core.decoder.spec.step_weight_bytes(core.decoder.dtype) / core.decoder.dtype.itemsize
    sizes = [size for size in _sizes(min(CHUNK, core.width)) if 2 * weights * size <= LAUNCHED]
    return sizes[-1] if sizes else 0


def _sizes(most: int) -> list[int]:
    """`LEAST` and what follows, two an octave, of which the last holds `most` tokens."""
    sizes = [LEAST]
    while sizes[-1] < most:
        sizes.append(node_bucket(sizes[-1] + 1))
    return sizes


class PromptGraphs:
    """Reads the first tokens of texts into the pool."""

    def __init__(self, core: Core, graphs: Graphs) -> None:
        """Its buffers must outlive the graphs that are captured of it."""
        self._core, self._graphs, self._most = core, graphs, most_of(core)
        spec, device = core.decoder.spec, core.decoder.device
        self._tokens, self._slots, self._held = parted(3, self._most, torch.int64, device, torch.zeros)
        """Of each place its token, the slot that its keys and values go to (-1: padding), and the one that they are
        read from, which for padding is another's: what a free page holds may be no number."""
        self._slots.fill_(-1)
        self._positions = torch.arange(self._most, device=device).clamp_max(core.width - 1)
        self._begin = torch.arange(QUERIES, device=device)
        self._last = torch.zeros_like(self._begin)
        self._hidden = torch.empty(self._most, spec.hidden_size, dtype=core.decoder.dtype, device=device)
        shape = (spec.layers, QUERIES, spec.heads, spec.head_dim)
        self._queries = torch.empty(shape if core.drafts else 0, dtype=core.decoder.dtype, device=device)
        self._wanted: Counter[int] = Counter()

    def size_for(self, tokens: int) -> int | None:
        """The size of graph that reads so many, at least `QUERIES`, from the first one on; None: there is none, and it
        is not the time to make one."""
        wanted = max(LEAST, node_bucket(tokens))
        if not QUERIES <= tokens <= self._most:
            return None
        covering = self._graphs.covering
        found = covering.find(KIND, (wanted,))
        self._wanted[wanted] += 1
        if found != (wanted,) and self._wanted[wanted] > PATIENCE and self._graphs.allows():
            return wanted
        return None if found is None else found[0]

    def read(self, size: int, extents: list[tuple[int, int]], tokens: Tensor, scores: Scores | None = None) -> Tensor:
        """Reads `tokens` [n] int64 (host) from position 0 on with the graph of a size; else as `prefill.read`.

        What it returns lasts until it reads again.
        """
        count = len(tokens)
        slots = torch.cat([torch.arange(first, first + places) for first, places in extents])
        sent = torch.empty(3, size, dtype=torch.int64)
        sent[0].zero_()
        sent[0, :count], sent[1, :count], sent[1, count:] = tokens, slots, -1
        sent[2, :count], sent[2, count:] = slots, slots[0]
        for buffer, given in zip(
            (self._tokens, self._slots, self._held), upload(sent, self._tokens.device), strict=True
        ):
            buffer[:size] = given
        torch.add(self._begin, count - QUERIES, out=self._last)
        self._graphs.run(*self._step(size))
        if scores is not None:
            held = self._held[:count]
            weigh_all(self._queries, self._core.pool, lambda keys: keys.index_select(-2, held), count, scores)
        return self._hidden[:count]

    def ready(self) -> Iterator[Step]:
        """The forwards of all sizes, the largest first; to be captured only."""
        for size in reversed(_sizes(self._most) if self._most else []):
            self._slots.fill_(-1)  # what was read last must not be written again: its pages may be another's
            self._held.zero_()
            yield self._step(size)

    def _step(self, size: int) -> Step:
        return (KIND, (size,)), partial(self._run, size)

    def _run(self, size: int) -> None:
        """Device code; may be run over and over."""
        core, held = self._core, self._held[:size]

        def mix(layer: int, q: Tensor) -> Tensor:
            if core.drafts:
                torch.index_select(q, 0, self._last, out=self._queries[layer])
            keys, values = (pool[layer].index_select(1, held) for pool in (core.pool.keys, core.pool.values))
            mixed = F.scaled_dot_product_attention(
                q.transpose(0, 1)[None], keys[None], values[None], is_causal=True, enable_gqa=True
            )
            return mixed[0].transpose(0, 1)

        embedded = core.forward.embed(self._tokens[:size])
        self._hidden[:size] = core.forward(embedded, self._positions[:size], self._slots[:size], mix)
