"""The same bits for a token whoever is in the batch and however many are computed with it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attention.kernels.batches import TOLERANCE, error, make_batch
from glimpse.attention.triton import definitions
from glimpse.attention.triton.attention import HeadShape, Paged, PagedConfig
from glimpse.attention.triton.narrow import Narrow
from glimpse.attention.triton.narrow_config import NarrowConfig
from glimpse.attention.triton.product import product

GPU = torch.cuda.is_available()
COUNTS = [1, 2, 9, 16, 40, 64, 130]


@pytest.fixture(autouse=True)
def products():
    """Where a program computes, numpy's own roundings are kept out: what is tested is the order of everything else."""
    if GPU:
        yield
        return
    from attention.kernels.interpreter import even_products

    with even_products():
        yield


@pytest.fixture
def config(device):
    return replace(PagedConfig.bitwise(96, device), block=16, piece=32)


def attend(config, q, lengths, queries, batch, rows):
    shape = HeadShape(q.shape[1], batch.keys.shape[0], q.shape[2])
    paged = Paged(shape, len(lengths), queries, batch.page_size, q.device, config)
    lengths = torch.tensor(lengths, dtype=torch.int32, device=q.device)
    paged.plan(lengths)
    table = batch.table[torch.tensor(rows, device=q.device)]
    return paged(q, batch.keys, batch.values, table, lengths)


@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (8, 2), (5, 5), (40, 2)])
def test_attention_of_a_token_alone_and_among_others(heads, kv_heads, config, device, dtype):
    batch = make_batch([90, 37, 70], 6, heads, kv_heads, 16, device, dtype)
    together = attend(config, batch.q, [90, 37, 70], 6, batch, [0, 1, 2])
    right, _, _ = definitions.paged(*batch.wide())
    assert error(together, right) < TOLERANCE[dtype]
    for row, length in enumerate([90, 37, 70]):
        for query in range(6):
            alone = attend(config, batch.q[row * 6 + query][None], [length - 5 + query], 1, batch, [row])
            assert torch.equal(alone[0], together[row * 6 + query])


def test_pieces_begin_at_the_same_places(config, device):
    paged = Paged(HeadShape(3, 1, 16), 2, 1, 16, device, config)
    paged.plan(torch.tensor([70, 31], dtype=torch.int32, device=device))
    rows, begins, ends = paged.splits.work[:, :4].tolist()
    assert (rows, begins, ends) == ([0, 0, 0, 1], [0, 32, 64, 0], [32, 64, 70, 31])


PRECISE = torch.bfloat16 if GPU else torch.float32
"""Rounded to bfloat16 a sum hardly ever shows the order that it was taken in; matrix units do not take float32."""


def drawn(*shape, device, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device, PRECISE)


@pytest.mark.parametrize("count", COUNTS)
def test_a_product_of_one_token_and_of_many(count, device):
    x, weight = drawn(max(COUNTS), 128, device=device), drawn(100, 128, device=device, seed=1)
    found = product(x[:count], weight)
    eps = torch.finfo(found.dtype).eps
    torch.testing.assert_close(found, x[:count] @ weight.T, rtol=4 * eps, atol=max(32 * eps, 1e-4))
    assert torch.equal(found[:1], product(x[:1], weight))
    assert torch.equal(found[-1:], product(x[count - 1 : count], weight))


@pytest.mark.parametrize("count", COUNTS)
def test_a_layers_linears_of_one_token_and_of_many(count, device):
    hidden, inner = 128, 192
    x, norm = drawn(max(COUNTS), hidden, device=device), drawn(hidden, device=device, seed=2)
    gate_up, down = drawn(2 * inner, hidden, device=device, seed=3), drawn(hidden, inner, device=device, seed=4)

    def layer(rows):
        tokens = len(rows)
        narrow = Narrow(tokens, hidden, device, NarrowConfig.bitwise(tokens, linked=False))
        residual = rows.clone()
        narrow.down(narrow.gated(rows, norm, 1e-6, gate_up), down, residual)
        return residual

    found = layer(x[:count].contiguous())
    assert torch.equal(found[:1], layer(x[:1].contiguous()))
    assert torch.equal(found[-1:], layer(x[count - 1 : count].contiguous()))
