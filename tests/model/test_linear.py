"""Packed and plain linear layers compute the same product."""

import pytest
import torch
import torch.nn.functional as F

from glimpse.model.linear import DenseLinear, PackedLinear, can_pack, make_linear

needs_packing = pytest.mark.skipif(not can_pack(torch.float32), reason="this build has no oneDNN-packed linear")


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@needs_packing
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("rows", [0, 1, 3, 8, 65])
def test_packed_product_is_right_with_any_rows_and_threads(threads, count, rows):
    threads(count)
    generator = torch.Generator().manual_seed(0)
    weight, bias, x = (torch.randn(*shape, generator=generator) for shape in ((70, 33), (70,), (rows, 33)))
    for each in (None, bias):
        torch.testing.assert_close(PackedLinear(weight, each)(x), F.linear(x, weight, each), rtol=1e-5, atol=1e-4)


@needs_packing
def test_rows_with_a_stride():
    weight, x = torch.randn(8, 6), torch.randn(5, 12)[:, ::2]
    torch.testing.assert_close(PackedLinear(weight)(x), F.linear(x, weight), rtol=1e-5, atol=1e-5)


@needs_packing
def test_the_original_weight_is_not_kept():
    weight = torch.randn(32, 32)
    layer = make_linear(weight)
    expected = layer(torch.eye(32))
    weight.zero_()
    assert torch.equal(layer(torch.eye(32)), expected)
    assert isinstance(layer, PackedLinear)


def test_dtypes_that_cannot_be_packed_stay_plain():
    weight = torch.randn(4, 4, dtype=torch.float64)
    layer = make_linear(weight)
    assert isinstance(layer, DenseLinear)
    torch.testing.assert_close(layer(torch.eye(4, dtype=torch.float64)), weight.t())


def test_a_build_without_the_operator_falls_back(monkeypatch):
    can_pack.cache_clear()
    monkeypatch.setattr("glimpse.model.linear.PackedLinear", _broken)
    assert isinstance(make_linear(torch.randn(4, 4)), DenseLinear)
    can_pack.cache_clear()


def _broken(*_):
    raise AttributeError("no such operator")
