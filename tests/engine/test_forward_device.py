"""A forward whose decoder and cache are not on the host, by way of torch's meta device: values are not computed, but
an operation over tensors of two devices is an error there as on a GPU."""

import pytest
import torch

from glimpse.attention import RowSpec, attend
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import ImportanceWindow, RecallBudget, recall, select
from glimpse.cache.rows import Rows
from glimpse.cache.sequence import Sequence
from glimpse.engine.forward import forward
from glimpse.model import build_decoder
from glimpse.model.hf_config import spec_from_config
from glimpse.model.weights.memory import MemoryWeights
from tiny import tiny_config, tiny_weights

META = torch.device("meta")
BUDGET = RecallBudget(share=0.5, floor=8, sinks=2, recent=2)


@pytest.fixture
def elsewhere(monkeypatch):
    """(decoder, pool) on meta; what comes back to the host are zeros."""
    config = tiny_config()
    spec = spec_from_config(config)
    decoder = build_decoder(spec, MemoryWeights(tiny_weights(config)), device=META)
    pool = PagePool(CacheShape(spec.layers, spec.kv_heads, spec.head_dim), 16, 16, torch.float32, META)
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: torch.zeros(tensor.shape, dtype=tensor.dtype))
    return decoder, pool


def placed(plan):
    """Where the tensors of a plan are."""
    masks = [row.mask for row in plan.rows if row.mask is not None]
    return {tensor.device for tensor in (plan.positions, plan.slots, plan.outputs, *masks)}


def test_prompts_drafts_and_verifications_run_where_the_cache_is(elsewhere, monkeypatch):
    seen = set()
    monkeypatch.setattr(
        "glimpse.engine.forward.attend",
        lambda q, pool, plan, layer: seen.update(placed(plan)) or attend(q, pool, plan, layer),
    )
    decoder, pool = elsewhere
    rows, length = Rows(3, 100, 8), 60
    sequences = [Sequence(pool) for _ in range(3)]
    for slot, sequence in enumerate(sequences):
        sequence.reserve(length + 8)
        rows.open(slot, list(range(length)), sequence, 90)
    window = ImportanceWindow(pool.shape.layers, pool.shape.kv_heads, 16, META)
    window.push(torch.zeros(pool.shape.layers, pool.shape.kv_heads, 16, length, device=META))
    chosen = recall(pool, sequences[1], select(window.scores(length), BUDGET), length)
    specs = [
        RowSpec(0, sequences[0], 0, 40, outputs=0),
        RowSpec(1, sequences[1], length, 1, recall=chosen),
        RowSpec(2, sequences[2], length - 1, 5, parents=torch.tensor([-1, 0, 0, 1]), outputs=5, importance=3),
    ]
    result = forward(decoder, pool, rows, specs)
    assert [(tuple(logits.shape), logits.device.type) for logits in result.logits] == [
        ((outputs, decoder.spec.vocab_size), "cpu") for outputs in (0, 1, 5)
    ]
    assert seen == {META}
    importance = result.importance[2]
    assert importance.device == META
    assert tuple(importance.shape) == (pool.shape.layers, pool.shape.kv_heads, 3, length + 4)
