"""Split-KV attention over pages against its definition."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attention.kernels.batches import TOLERANCE, error, make_batch
from glimpse.attention.triton import definitions
from glimpse.attention.triton.attention import HeadShape, Importance, Paged, PagedConfig

RATIOS = [(9, 3), (6, 2), (4, 1), (5, 5)]
SMALL = PagedConfig(block=16, waves=0.2)
"""A few pieces a row."""
TILES = replace(SMALL, tile=16)


def paged_for(batch, queries, config=SMALL):
    shape = HeadShape(batch.q.shape[1], batch.keys.shape[0], batch.q.shape[2])
    paged = Paged(shape, len(batch.lengths), queries, batch.page_size, batch.q.device, config)
    paged.part_out.fill_(torch.nan)
    paged.part_lse.fill_(torch.nan)
    paged.plan(batch.lengths)
    return paged


def run(batch, queries, config=SMALL, **options):
    out = torch.full_like(batch.q, torch.nan)
    paged = paged_for(batch, queries, config)
    return paged(batch.q, batch.keys, batch.values, batch.table, batch.lengths, out=out, **options)


@pytest.mark.parametrize(("heads", "kv_heads"), RATIOS)
def test_decode_over_unequal_lengths_and_idle_rows(heads, kv_heads, device, dtype):
    batch = make_batch([37, 0, 1, 90], 1, heads, kv_heads, 16, device, dtype)
    right, _, _ = definitions.paged(*batch.wide())
    out = run(batch, 1)
    assert error(out, right) < TOLERANCE[dtype]
    assert (out[1] == 0).all()


@pytest.mark.parametrize(("heads", "kv_heads"), RATIOS)
def test_verify_sees_causally(heads, kv_heads, device, dtype):
    batch = make_batch([4, 50, 0], 4, heads, kv_heads, 16, device, dtype)
    right, _, _ = definitions.paged(*batch.wide())
    assert error(run(batch, 4), right) < TOLERANCE[dtype]


@pytest.mark.parametrize("config", [SMALL, TILES], ids=["one tile", "tiles"])
def test_rows_with_fewer_tokens_than_the_graph_has_room_for(config, device, dtype):
    batch = make_batch([33, 20, 3], 4, 6, 2, 16, device, dtype)
    counts = torch.tensor([4, 1, 2], dtype=torch.int32, device=device)
    right, _, _ = definitions.paged(*batch.wide(), counts=counts)
    out = run(batch, 4, config, counts=counts)
    assert error(out, right) < TOLERANCE[dtype]
    assert (out[5:8] == 0).all()


def test_tree_masks(device, dtype):
    batch = make_batch([40, 5], 5, 6, 2, 16, device, dtype)
    # Node 1 and 2 are siblings below 0; 3 goes on from 1, 4 from 2.
    tree = torch.tensor([0b1, 0b11, 0b101, 0b1011, 0b10101], device=device).expand(2, 5).contiguous()
    right, _, _ = definitions.paged(*batch.wide(), tree=tree)
    causal, _, _ = definitions.paged(*batch.wide())
    assert error(causal, right) > 0.01
    assert error(run(batch, 5, tree=tree), right) < TOLERANCE[dtype]


def random_trees(rows, nodes, device):
    """[rows, nodes] int64: each node sees itself, its parent (any node before it) and what that sees."""
    generator, trees = torch.Generator().manual_seed(2), []
    for _ in range(rows):
        seen = [1]
        for node in range(1, nodes):
            seen.append(seen[int(torch.randint(node, (1,), generator=generator))] | (1 << node))
        trees.append([bits - (1 << 64) if bits >> 63 else bits for bits in seen])
    return torch.tensor(trees, dtype=torch.int64, device=device)


@pytest.mark.parametrize("nodes", [16, 33, 64])
def test_large_trees_in_tiles(nodes, device, dtype):
    batch = make_batch([nodes + 45, nodes], nodes, 6, 2, 16, device, dtype)
    tree = random_trees(2, nodes, device)
    right, _, _ = definitions.paged(*batch.wide(), tree=tree)
    assert error(run(batch, nodes, replace(SMALL, tile=32), tree=tree), right) < TOLERANCE[dtype]


def test_queries_may_lie_among_keys_and_values(device, dtype):
    batch = make_batch([40, 3], 2, 4, 2, 16, device, dtype)
    right, _, _ = definitions.paged(*batch.wide())
    qkv = torch.full((4, 8, 16), torch.nan, device=device, dtype=dtype)
    qkv[:, :4] = batch.q
    paged = paged_for(batch, 2)
    out = paged(qkv[:, :4], batch.keys, batch.values, batch.table, batch.lengths)
    assert out.is_contiguous()
    assert error(out, right) < TOLERANCE[dtype]


@pytest.mark.parametrize("page_size", [1, 4, 64])
def test_any_page_size(page_size, device, dtype):
    batch = make_batch([70, 9], 2, 4, 2, 16, device, dtype, page_size=page_size)
    right, _, _ = definitions.paged(*batch.wide())
    assert error(run(batch, 2), right) < TOLERANCE[dtype]


def test_a_head_size_between_powers_of_two(device, dtype):
    batch = make_batch([30], 2, 4, 2, 24, device, dtype)
    right, _, _ = definitions.paged(*batch.wide())
    assert error(run(batch, 2), right) < TOLERANCE[dtype]


@pytest.mark.parametrize("weighted", [False, True])
def test_importance_and_the_new_reference(weighted, device, dtype):
    batch = make_batch([60, 0, 18], 3, 6, 2, 16, device, dtype)
    counts = torch.tensor([3, 3, 2], dtype=torch.int32, device=device)
    reference = torch.linspace(-1, 3, 18, device=device).view(3, 6)
    weights = torch.tensor([[1.0, 0, 1], [1, 1, 1], [0, 1, 1]], device=device) if weighted else None
    paged = paged_for(batch, 3)
    right, importance, means = definitions.paged(*batch.wide(), counts=counts, reference=reference, weights=weights)
    scores = torch.zeros(3, 2, importance.shape[-1], device=device)
    fresh = reference.clone()
    found = Importance(scores, reference, fresh, weights)
    out = paged(batch.q, batch.keys, batch.values, batch.table, batch.lengths, counts=counts, importance=found)
    assert error(out, right) < TOLERANCE[dtype]
    assert error(scores, importance) < TOLERANCE[dtype]
    assert error(fresh, means) < TOLERANCE[dtype]
    assert (fresh[1] == reference[1]).all()


def test_importance_of_a_wide_row_is_that_of_its_first_tile(device, dtype):
    batch = make_batch([60, 18], 7, 6, 2, 16, device, dtype)
    reference = torch.linspace(-1, 3, 12, device=device).view(2, 6)
    paged = paged_for(batch, 7, TILES)
    assert paged.counted == 5
    _, importance, means = definitions.paged(*batch.wide(), reference=reference, counted=5)
    scores, fresh = torch.zeros(2, 2, importance.shape[-1], device=device), reference.clone()
    found = Importance(scores, reference, fresh)
    paged(batch.q, batch.keys, batch.values, batch.table, batch.lengths, importance=found)
    assert error(scores, importance) < TOLERANCE[dtype]
    assert error(fresh, means) < TOLERANCE[dtype]


def test_importance_in_16_bits(device, dtype):
    batch = make_batch([60, 18], 3, 6, 2, 16, device, dtype)
    reference = torch.linspace(-1, 3, 12, device=device).view(2, 6)
    _, importance, _ = definitions.paged(*batch.wide(), reference=reference)
    scores = torch.zeros(2, 2, importance.shape[-1], dtype=torch.bfloat16, device=device)
    run(batch, 3, importance=Importance(scores, reference, reference.clone()))
    assert error(scores, importance) < 4e-3 + TOLERANCE[dtype]


def test_a_hopeless_reference_stays_finite(device, dtype):
    batch = make_batch([20], 1, 2, 1, 16, device, dtype)
    scores = torch.zeros(1, 1, 32, device=device)
    low = torch.full((1, 2), -1e4, device=device)
    run(batch, 1, importance=Importance(scores, low, low.clone()))
    assert torch.isfinite(scores).all()
    assert (scores[0, 0, :19] > 0).all()


@pytest.mark.parametrize("waves", [0.01, 0.1, 0.5])
def test_pieces_cover_every_position_once_and_never_exceed_their_number(waves, device):
    batch = make_batch([100, 3, 0, 16, 17], 1, 2, 1, 16, device)
    paged = paged_for(batch, 1, PagedConfig(block=16, waves=waves))
    row, begin, end = paged.splits.work.tolist()
    covered = {index: [] for index in range(5)}
    for piece, owner in enumerate(row):
        if owner >= 0:
            covered[owner] += range(begin[piece], end[piece])
    assert [covered[index] for index in range(5)] == [list(range(n)) for n in batch.lengths.tolist()]
    assert paged.splits.first.tolist()[-1] == sum(owner >= 0 for owner in row) <= paged.splits.items


def test_borders_stay_where_they_are_while_rows_grow(device):
    """So a token's sums are grouped alike whether it is decoded or verified."""
    first, later = (
        paged_for(make_batch([1500, 1500 + more], 1, 2, 1, 16, device), 1, PagedConfig(block=16, waves=0.1)).splits.work
        for more in (0, 25)
    )
    starts, last = first[1].tolist(), first[2].max()
    assert later[1].tolist() == starts
    assert len(set(starts)) > 4
    assert (later[2] != first[2]).sum() == 1
    assert later[2].max() == last + 25


def test_long_rows_get_more_pieces(device):
    batch = make_batch([320, 16, 16], 1, 2, 1, 16, device)
    first = paged_for(batch, 1, PagedConfig(block=16, waves=0.1)).splits.first.tolist()
    assert first == [0, 10, 11, 12]


@pytest.mark.parametrize(("shape", "rows", "queries"), [((9, 3, 64), 64, 9), ((32, 8, 128), 16, 8), ((9, 3, 64), 1, 9)])
def test_decode_and_short_verify_rows_are_cut_alike(shape, rows, queries, device):
    decode, verify = (PagedConfig.fit(HeadShape(*shape), rows, count, device) for count in (1, queries))
    assert decode == verify
