"""One forward of a ragged batch through the target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glimpse.attention import RowSpec, attend, plan_batch
from glimpse.cache.pool import PagePool
from glimpse.cache.rows import Rows
from glimpse.model import Decoder
from glimpse.pacing.costs import StepLoad


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """What the target said."""

    logits: list[Tensor]
    """For each row [outputs, vocab] float32, on the host."""
    importance: list[Tensor | None]
    """For each row None or [layers, kv_heads, queries, stop] float16, on the decoder's device."""


def forward(decoder: Decoder, pool: PagePool, rows: Rows, specs: list[RowSpec]) -> ForwardResult:
    """Runs the rows, writes their keys and values, and returns the logits and importance they asked for.

    The decoder and the pool may be on a GPU; `rows` are on the host.
    """
    device = decoder.device
    plan = plan_batch(specs, device)
    weights: list[list[Tensor]] = [[] for _ in specs]

    def attend_layer(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        pool.write(layer, plan.slots, k, v)
        mixed, importance = attend(q, pool, plan, layer)
        for spec, kept, row in zip(specs, weights, importance, strict=True):
            if row is not None and spec.refresh is not None:
                spec.refresh.hear(row)
            elif row is not None:
                kept.append(row.half())
        return mixed

    tokens = torch.cat([_tokens(rows, spec) for spec in specs]).to(device)
    lengths = torch.cat(
        [(plan.positions[row.begin : row.end] + 1).clamp_min(int(rows.prompt_len[row.spec.slot])) for row in plan.rows]
    )
    hidden = decoder.forward(tokens, plan.positions, lengths, attend_layer)
    logits = decoder.logits(hidden[plan.outputs]) if len(plan.outputs) else hidden.new_empty(0, 0)
    parts = torch.split(logits.cpu(), [spec.outputs for spec in specs])
    return ForwardResult(list(parts), [torch.stack(kept) if kept else None for kept in weights])


def _tokens(rows: Rows, spec: RowSpec) -> Tensor:
    return rows.tokens[spec.slot, spec.start : spec.stop]


def load_of(specs: list[RowSpec], rows: Rows) -> StepLoad:
    """What a step with these rows costs to run."""
    load = StepLoad()
    for spec in specs:
        if spec.recall is None:
            load += StepLoad(full_tokens=spec.count, full_kv=spec.stop, pairs=spec.count * spec.stop)
        else:
            begins = int(rows.draft_len[spec.slot]) == 0
            load += StepLoad(draft_tokens=spec.count, draft_kv=spec.kv_read, rounds=int(begins))
    return replace(load, mixed=int(bool(load.draft_tokens and load.full_tokens)))
