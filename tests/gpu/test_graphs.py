"""Kernels in CUDA graphs: captured once, right for whatever lengths the device holds at replay, no host sync."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from attention.kernels.batches import TOLERANCE, error, make_batch
from glimpse.attention.triton import definitions
from glimpse.attention.triton.attention import HeadShape, Importance, Paged
from glimpse.attention.triton.picking import RowSettings, Sample
from glimpse.attention.triton.recalled import Recalled, RecalledConfig
from glimpse.attention.triton.select import Selection, capacity
from glimpse.sampling.noise import Role, gumbel

DEVICE = torch.device("cuda")
SHAPES = [HeadShape(32, 8, 128), HeadShape(9, 3, 64)]
LENGTHS = [[2000, 0, 17, 900], [9, 2048, 1500, 0], [2048, 2048, 2048, 2048]]


@contextmanager
def never_waiting():
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def captured(step):
    """The graph of `step`, after a first run that compiles."""
    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    with never_waiting():
        step()
    return graph


@pytest.mark.parametrize("shape", SHAPES, ids=["8b", "135m"])
@pytest.mark.parametrize("queries", [1, 9])
def test_one_graph_serves_all_lengths(shape, queries):
    dtype = torch.bfloat16
    batch = make_batch(LENGTHS[2], queries, shape.heads, shape.kv_heads, shape.head_dim, DEVICE, dtype)
    paged = Paged(shape, 4, queries, batch.page_size, DEVICE)
    scores = torch.zeros(4, shape.kv_heads, 2048, device=DEVICE)
    reference = torch.full((4, shape.heads), 9.0, device=DEVICE)
    fresh, out = torch.zeros_like(reference), torch.empty_like(batch.q)

    def step():
        paged.plan(batch.lengths)
        found = Importance(scores, reference, fresh)
        paged(batch.q, batch.keys, batch.values, batch.table, batch.lengths, importance=found, out=out)

    graph = captured(step)
    for lengths in LENGTHS:
        batch.lengths.copy_(torch.tensor(lengths))
        scores.zero_()
        out.fill_(torch.nan)
        graph.replay()
        right = definitions.paged(*batch.wide(torch.float32), reference=reference)
        assert error(out, right[0]) < TOLERANCE[dtype]
        assert error(scores, right[1]) < TOLERANCE[dtype]


@pytest.mark.parametrize("shape", SHAPES, ids=["8b", "135m"])
def test_selection_then_draft_attention(shape):
    dtype = torch.bfloat16
    batch = make_batch(LENGTHS[2], 1, shape.heads, shape.kv_heads, shape.head_dim, DEVICE, dtype)
    scores = torch.rand(1, 4, shape.kv_heads, 2048, device=DEVICE).bfloat16()
    selected, counts = capacity(4, shape.kv_heads, 1, 512, DEVICE)
    bases, budgets = torch.zeros_like(batch.lengths), torch.full_like(batch.lengths, 512)
    # Linked, it would read the slots before the selection just launched is known to have ended.
    config = replace(RecalledConfig.fit(shape, 4, DEVICE), linked=False)
    recalled, selection = Recalled(shape, 4, batch.page_size, DEVICE, config), Selection(batch.page_size)
    out = torch.empty_like(batch.q)

    def step():
        selection(scores, bases, bases, budgets, batch.table, selected, counts)
        recalled(
            batch.q, batch.keys, batch.values, selected[0], counts, bases, batch.lengths, batch.table, out=out
        )  # fmt: skip

    graph = captured(step)
    for lengths in LENGTHS:
        batch.lengths.copy_(torch.tensor(lengths))
        bases.copy_((batch.lengths - 5).clamp_min(0))
        out.fill_(torch.nan)
        graph.replay()
        for row, base in enumerate(bases.tolist()):
            positions = definitions.selection(scores[0, row, 0, :base], base, 512, 4, 32)
            right = definitions.slots_of(batch.table[row], positions, batch.page_size)
            assert selected[0, row, 0, : len(right)].tolist() == right.tolist()
        q, keys, values, table, lens, page_size = batch.wide(torch.float32)
        right = definitions.recalled(q, keys, values, selected[0], counts, bases, lens, table, page_size)
        assert error(out, right) < TOLERANCE[dtype]


def test_sampling_follows_the_settings_on_the_device():
    rows, vocab = 64, 49152
    logits = torch.randn(rows, vocab, device=DEVICE) * 3
    double = {"dtype": torch.float64, "device": DEVICE}
    settings = RowSettings(
        torch.ones(rows, **double), torch.full((rows,), vocab, device=DEVICE), torch.full((rows,), 2.0, **double),
        torch.full((rows,), -torch.inf, **double),
    )  # fmt: skip
    seeds, positions = torch.arange(rows, device=DEVICE), torch.zeros(rows, dtype=torch.int64, device=DEVICE)
    sample = Sample(rows, vocab, DEVICE)
    graph = captured(lambda: sample(logits, settings, seeds, positions))
    for position in (0, 1):
        positions.fill_(position)
        graph.replay()
        noise = gumbel(seeds, positions, Role.TARGET, 0, torch.arange(vocab, device=DEVICE))
        assert (sample.picks.tokens == (logits + noise).argmax(1)).sum() >= rows - 1
    settings.top_k.fill_(1)
    graph.replay()
    assert (sample.picks.tokens == logits.argmax(1)).all()
