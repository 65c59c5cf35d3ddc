"""One forward of a ragged batch through the target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glimpse.attention import RowSpec, attend, plan_batch
from glimpse.attention.groups import GroupPlan, attend_groups, plan_groups
from glimpse.attention.plan import Plan
from glimpse.cache.pool import PagePool
from glimpse.cache.rows import Rows
from glimpse.model import Decoder
from glimpse.model.late import LateTokens
from glimpse.pacing.costs import StepLoad


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """What the target said."""

    logits: list[Tensor]
    """For each row [outputs, vocab] float32, on the host."""
    importance: list[Tensor | None]
    """For each row None or [layers, kv_heads, queries, stop] float16, on the decoder's device."""
    hidden: list[Tensor | None]
    """For each row None or [count, hidden], after the final norm, on the decoder's device."""
    groups: list[Tensor | None]
    """For each row None or [groups, size, hidden] of its mask tokens, after the final norm, on the decoder's device."""


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
    groups = plan_groups(plan)
    late = None if groups is None else _late(decoder, pool, rows, groups)
    lengths = _lengths(rows, plan)
    hidden = decoder.forward(tokens, plan.positions, lengths, attend_layer, *([late.step] if late else []))
    logits = decoder.logits(hidden[plan.outputs]) if len(plan.outputs) else hidden.new_empty(0, 0)
    return ForwardResult(
        list(torch.split(logits.cpu(), [spec.outputs for spec in specs])),
        [torch.stack(kept) if kept else None for kept in weights],
        [hidden[row.begin : row.end] if row.spec.hidden else None for row in plan.rows],
        _by_group(plan, late.hidden if late else None),
    )


def _lengths(rows: Rows, plan: Plan | GroupPlan) -> Tensor:
    """The rotary lengths of all tokens of a plan (see `Rotary.at`)."""
    return torch.cat(
        [(plan.positions[row.begin : row.end] + 1).clamp_min(int(rows.prompt_len[row.spec.slot])) for row in plan.rows]
    )


def _late(decoder: Decoder, pool: PagePool, rows: Rows, groups: GroupPlan) -> LateTokens:
    """The mask tokens of a batch on their way through the decoder."""

    def attend_layer(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend_groups(q, k, v, pool, groups, layer)

    rotation = decoder.rotary.at(groups.positions, _lengths(rows, groups), decoder.dtype)
    return LateTokens(decoder, groups.path, rotation, attend_layer)


def _by_group(plan: Plan, hidden: Tensor | None) -> list[Tensor | None]:
    """The hidden states of mask tokens [M, hidden] by row and group."""
    found, begin = list[Tensor | None](), 0
    for row in plan.rows:
        masks = row.spec.masks
        if masks is None or hidden is None:
            found.append(None)
        else:
            found.append(hidden[begin : begin + masks.count].view(-1, masks.size, hidden.shape[-1]))
            begin += masks.count
    return found


def _tokens(rows: Rows, spec: RowSpec) -> Tensor:
    return rows.tokens[spec.slot, spec.start : spec.stop]


def load_of(specs: list[RowSpec], rows: Rows) -> StepLoad:
    """What a step with these rows costs to run."""
    load = StepLoad()
    for spec in specs:
        if spec.recall is None:
            load += StepLoad(full_tokens=spec.count, full_kv=spec.stop, pairs=spec.count * spec.stop)
            if spec.masks is not None:
                load += StepLoad(draft_tokens=spec.masks.count, draft_kv=len(spec.masks.behind) * spec.stop)
        else:
            begins = int(rows.draft_len[spec.slot]) == 0
            load += StepLoad(draft_tokens=spec.count, draft_kv=spec.kv_read, rounds=int(begins))
    kinds = {spec.recall is None for spec in specs}  # masks ride with rows that read everything: no other kind
    riding = any(spec.masks is not None for spec in specs)
    return replace(load, mixed=int(len(kinds) == 2), riding=int(riding))
