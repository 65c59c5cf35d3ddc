"""The quickened interpreter: launches alone see a replaced language, and what it keeps is what would be worked out."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU runs kernels, not the interpreter")


@triton.jit
def doubled(x):
    return tl.sum(x + x, axis=0)


@triton.jit
def double_kernel(source, target, SIZE: tl.constexpr):
    tl.static_assert(SIZE > 1)
    place = tl.arange(0, SIZE)
    tl.store(target, doubled(tl.load(source + place)))


@triton.jit
def odd_kernel(target, SIZE: tl.constexpr):
    tl.store(target, tl.sum(tl.zeros((SIZE,), tl.int32)))


@triton.jit
def appended(left, right):
    return left * 10 + right


@triton.jit
def digits_kernel(columns, rows, whole):
    tile = tl.reshape(tl.arange(0, 8), (2, 4))
    tl.store(columns + tl.arange(0, 4), tl.reduce(tile, 0, appended))
    kept = tl.reduce(tile, 1, appended, keep_dims=True)
    tl.store(rows + tl.arange(0, 2)[:, None], kept)
    tl.store(whole, tl.reduce(tile, None, appended))


def language():
    owners = (tl, tl.core, tl.math, tl.core.tensor, tl.core.dtype)
    return [dict(vars(owner)) for owner in owners]


def test_only_launches_see_a_replaced_language():
    source, target = torch.arange(4), torch.zeros(1, dtype=torch.int64)
    double_kernel[(1,)](source, target, 4)
    before = language()
    double_kernel[(1,)](source, target, 4)
    assert target.item() == 12
    with pytest.raises(Exception, match="AssertionError"):
        double_kernel[(1,)](source, target, 1)
    assert language() == before
    assert tl.core.is_builtin(tl.load)


def test_shapes_that_triton_does_not_have_are_refused_each_time():
    for _ in range(2):
        with pytest.raises(Exception, match="power of 2"):
            odd_kernel[(1,)](torch.zeros(1, dtype=torch.int32), 3)


def test_values_have_their_shapes_and_types():
    for kind, numpys in ((tl.float32, "float32"), (tl.bfloat16, "uint16"), (tl.pointer_type(tl.int8), "uint64")):
        block = tl.block_type(kind, [4, tl.constexpr(2)])
        value = tl.core.tensor(None, block)
        assert (block.numel, list(block.shape), block.name) == (8, [4, 2], f"<['4', '2'], {kind}>")
        assert ([size.value for size in value.shape], value.numel.value, value.dtype) == ([4, 2], 8, kind)
        assert interpreter._get_np_dtype(block) == interpreter._get_np_dtype(kind) == numpys
    assert (len(tl.core.tensor(None, tl.int32).shape), tl.core.tensor(None, tl.int32).numel.value) == (0, 1)


def test_numbers_are_reduced_in_their_order():
    columns, rows, whole = (torch.zeros(size, dtype=torch.int32) for size in (4, 2, 1))
    digits_kernel[(1,)](columns, rows, whole)
    assert columns.tolist() == [4, 15, 26, 37]
    assert rows.tolist() == [123, 4567]
    assert whole.item() == 1234567
