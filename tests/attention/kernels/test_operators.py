"""Direct operators against Triton's own way: the same numbers, types and shapes, whatever the operands are."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest
import torch
import triton.language as tl

from attention.kernels import quick
from attention.kernels.operators import constant, value_of

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU runs kernels, not the interpreter")

SHAPES = ((), (4,), (4, 1), (1, 4), (2, 4))
NUMBERS = (0, 1, 3, 31, -2, (1 << 24) + 1, 1 << 31, (1 << 64) - 59, True, 0.5, -0.0, 1e-42, float("inf"), 1e300)
KINDS = {
    tl.int32: "int32", tl.int64: "int64", tl.uint32: "uint32", tl.uint64: "uint64", tl.float32: "float32",
    tl.float64: "float64", tl.int1: "bool", tl.int16: "int16",
}  # fmt: skip
ALL = slice(None)
INDICES = ((ALL, None), (None, ALL), (ALL, ALL, None), (None, None, ALL), (None, ALL, ALL), None, (0, ALL))
TWO = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.and_,
    operator.or_, operator.xor, operator.lshift, operator.rshift, operator.gt, operator.ge, operator.lt, operator.le,
    operator.eq, operator.ne,
)  # fmt: skip


def value(kind, shape, seed):
    """Small numbers, negative ones too where there are any, and none that is 0 but in truth values."""
    drawn = np.random.default_rng(seed).integers(1, 7, shape or (1,))
    data = (drawn > 3 if kind is tl.int1 else drawn).astype(KINDS[kind])
    if kind in (tl.float32, tl.int64):
        data = -data
    return value_of(data, kind, tl.block_type(kind, shape) if shape else kind)


def pointer(shape):
    kind = tl.pointer_type(tl.int32)
    data = np.arange(1, 1 + int(np.prod(shape)), dtype=np.uint64).reshape(shape or (1,)) * 1000
    return value_of(data, kind, tl.block_type(kind, shape) if shape else kind)


def told(function, *operands):
    """All that can be told of what comes out: numbers, how numpy and Triton hold them, shape; or that it is refused."""
    try:
        found = function(*operands)
    except Exception as error:
        return type(error).__name__
    if not isinstance(found, tl.core.tensor):
        return repr(found)
    data = found.handle.data
    held = "" if found.dtype is tl.int1 else (data.dtype.name, str(found.handle.dtype))
    shape = [size.value for size in found.shape]
    return repr(data.tolist()), held, str(found.type), shape


def cases(language):
    """(what is done, to what): every pair of shapes within a kind; beside numbers and other integers, two shapes."""
    tensors = [value(kind, shape, seed) for seed, (kind, shape) in enumerate(itertools.product(KINDS, SHAPES))]
    two = (*TWO, language.maximum, language.minimum)
    for place, one in enumerate(tensors):
        alike = tensors[place - place % len(SHAPES) :][: len(SHAPES)]
        for turn, other in enumerate(alike):  # operators take turns over the pairs of shapes
            yield from ((each, one, other) for each in two[(place + turn) % 3 :: 3])
        if place % len(SHAPES) > 1:
            continue
        for other in (*tensors[:4:2], *tensors[5:9:2], *NUMBERS, tl.constexpr(3)):
            yield from ((each, one, other) for each in two)
        yield from ((each, number, one) for number in NUMBERS[place % 2 :: 2] for each in TWO)
        yield from ((operator.methodcaller("to", kind), one) for kind in KINDS)
    for one, slices in itertools.product([*tensors, pointer((4,))], INDICES):
        yield operator.getitem, one, slices
    for shape, whole in itertools.product(SHAPES, tensors):
        yield operator.add, pointer(shape), whole
        condition = value(tl.int1, shape, 3)
        for other in (value(whole.dtype, shape, 5), whole, *NUMBERS[::4]):
            yield language.where, condition, whole, other
            yield language.where, condition, other, whole
    yield from ((operator.add, pointer((4,)), number) for number in NUMBERS)


def all_told():
    launch = quick._Launch(None)
    try:
        with np.errstate(all="ignore"):
            return [told(*case) for case in cases(tl)]
    finally:
        launch.restore()


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_another_but_the_time(monkeypatch):
    found = all_told()
    quick._changes.cache_clear()
    monkeypatch.setattr(quick, "direct_operators", dict)
    try:
        right = all_told()
    finally:
        quick._changes.cache_clear()
    assert len(found) > 5_000
    wrong = [(own, *pair) for own, *pair in zip(cases(tl), found, right, strict=True) if pair[0] != pair[1]]
    assert not wrong, wrong[:5]


def test_numbers_that_may_be_of_another_type_are_not_held():
    for number, kind in ((1 << 31, tl.int32), (-1, tl.uint64), ((1 << 24) + 1, tl.float32), (0.5, tl.int32),
                         (True, tl.int32), (1, tl.int1), (0.5, tl.float64), (1e-42, tl.float32)):  # fmt: skip
        assert constant(number, kind) is None
    assert constant((1 << 64) - 1, tl.uint64).tolist() == [(1 << 64) - 1]
    assert not np.signbit(constant(-0.0, tl.float32))[0]
    with pytest.raises(ValueError, match="read-only"):
        constant(1, tl.int32)[0] = 2
