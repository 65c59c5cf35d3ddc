"""The batched attention against a loop over rows, heads and queries in float64."""

import pytest
import torch

from glimpse.attention import RowSpec, attend, plan_batch
from glimpse.attention.plan import ancestors
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import recall
from glimpse.cache.sequence import Sequence

HEADS, KV_HEADS, DIM, PAGE = 6, 2, 8, 4


def make_pool(kv_heads=KV_HEADS, pages=64):
    pool = PagePool(CacheShape(2, kv_heads, DIM), pages, PAGE, torch.float32)
    pool.keys.fill_(float("nan"))
    pool.values.fill_(float("nan"))
    return pool


def filled(pool, length, scattered=False, room=0):
    """A sequence with random keys and values; scattered: its pages do not lie together."""
    sequence = Sequence(pool, expected=length + room)
    for end in range(1, length + room + 1):
        sequence.reserve(end)
        if scattered and end % PAGE == 1:
            Sequence(pool).reserve(1)
    slots = sequence.slots_of(torch.arange(length))
    shape = (*pool.keys[:, :, slots].shape,)
    pool.keys[:, :, slots], pool.values[:, :, slots] = torch.randn(shape), torch.randn(shape)
    return sequence


def naive(q, pool, sequence, sees, layer):
    """One query [heads, dim] over the positions it sees; ([heads, dim], weights [kv_heads, len(sees[0])])."""
    group = q.shape[0] // pool.shape.kv_heads
    out, weights = torch.empty_like(q), []
    for head in range(q.shape[0]):
        kv = head // group
        slots = sequence.slots_of(torch.tensor(sees[kv]))
        keys, values = pool.keys[layer, kv, slots].double(), pool.values[layer, kv, slots].double()
        p = torch.softmax(keys @ q[head].double() / DIM**0.5, 0)
        out[head] = (p @ values).float()
        weights.append(p)
    return out, torch.stack(weights).view(pool.shape.kv_heads, group, -1).sum(1)


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("count", [1, 3, 9, 40])
def test_full_rows_equal_the_loop(count, scattered):
    torch.manual_seed(0)
    pool = make_pool()
    sequences = [filled(pool, length, scattered) for length in (50, 41)]
    specs = [
        RowSpec(i, s, length - count, count, importance=min(count, 3))
        for i, (s, length) in enumerate(zip(sequences, (50, 41), strict=True))
    ]
    q = torch.randn(2 * count, HEADS, DIM)
    out, importance = attend(q, pool, plan_batch(specs), layer=1)
    for row, spec in enumerate(specs):
        for index in range(count):
            sees = [list(range(spec.start + index + 1))] * KV_HEADS
            want, weights = naive(q[row * count + index], pool, spec.sequence, sees, 1)
            torch.testing.assert_close(out[row * count + index], want, atol=1e-5, rtol=1e-5)
            place = index - (count - spec.importance)
            if place >= 0:
                got = importance[row][:, place, : len(sees[0])]
                torch.testing.assert_close(got, weights.float(), atol=1e-5, rtol=1e-5)
                assert (importance[row][:, place, len(sees[0]) :] == 0).all()


@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (6, 2), (7, 1), (5, 5), (14, 2), (15, 5)])
def test_every_head_ratio(heads, kv_heads):
    torch.manual_seed(1)
    pool = make_pool(kv_heads)
    sequence = filled(pool, 13)
    q = torch.randn(1, heads, DIM)
    out, _ = attend(q, pool, plan_batch([RowSpec(0, sequence, 12, 1)]), layer=0)
    want, _ = naive(q[0], pool, sequence, [list(range(13))] * kv_heads, 0)
    torch.testing.assert_close(out[0], want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scattered", [False, True])
def test_recalled_row_reads_its_set_and_the_tail_only(scattered):
    torch.manual_seed(2)
    pool = make_pool()
    sequence = filled(pool, 30, scattered)
    base = 24
    positions = torch.stack(
        [torch.stack([torch.randperm(base)[:7].sort().values for _ in range(KV_HEADS)]) for _ in range(2)]
    )
    chosen = recall(pool, sequence, positions, base)
    q = torch.randn(1, HEADS, DIM)
    spec = RowSpec(0, sequence, 29, 1, recall=chosen)
    out, _ = attend(q, pool, plan_batch([spec]), layer=1)
    sees = [positions[1, kv].tolist() + list(range(base, 30)) for kv in range(KV_HEADS)]
    want, _ = naive(q[0], pool, sequence, sees, 1)
    torch.testing.assert_close(out[0], want, atol=1e-5, rtol=1e-5)
    assert spec.kv_read == 7 + 6


def test_a_set_of_everything_equals_dense_attention():
    torch.manual_seed(3)
    pool = make_pool()
    sequence = filled(pool, 30)
    everything = torch.arange(29).expand(2, KV_HEADS, 29)
    q = torch.randn(1, HEADS, DIM)
    dense, _ = attend(q, pool, plan_batch([RowSpec(0, sequence, 29, 1)]), layer=0)
    spec = RowSpec(0, sequence, 29, 1, recall=recall(pool, sequence, everything, 29))
    sparse, _ = attend(q, pool, plan_batch([spec]), layer=0)
    torch.testing.assert_close(sparse, dense, atol=1e-6, rtol=1e-6)


def test_tree_rows_see_prefix_and_ancestors():
    torch.manual_seed(4)
    pool = make_pool()
    sequence = filled(pool, 26)
    parents = torch.tensor([-1, 0, 0, 2, -1])
    spec = RowSpec(0, sequence, 20, 6, parents=parents, outputs=6)
    plan = plan_batch([spec])
    assert plan.positions.tolist() == [20, 21, 22, 22, 23, 21]
    assert len(plan.outputs) == 6
    q = torch.randn(6, HEADS, DIM)
    out, _ = attend(q, pool, plan, layer=0)
    own = {0: [20], 1: [20, 21], 2: [20, 21, 22], 3: [20, 21, 23], 4: [20, 21, 23, 24], 5: [20, 25]}
    for index, tail in own.items():
        want, _ = naive(q[index], pool, sequence, [list(range(20)) + tail] * KV_HEADS, 0)
        torch.testing.assert_close(out[index], want, atol=1e-5, rtol=1e-5)


def test_ancestors_of_a_chain_are_a_triangle():
    assert ancestors(torch.tensor([-1, 0, 1])).tolist() == torch.ones(3, 3, dtype=torch.bool).tril().tolist()
