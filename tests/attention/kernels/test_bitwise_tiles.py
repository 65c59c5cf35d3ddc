"""What `benchmarks/gpu_bitwise_tiles.py` times computes products, and compares bits with the tile of few tokens."""

from __future__ import annotations

import pytest
import torch
from benchmarks import gpu_bitwise_tiles as tiles
from benchmarks.gpu_bitwise_tiles import TILES, keeps, key, result

OF_64 = [tile for tile in TILES if tile.columns == 64]
"""Under the interpreter a product is numpy's, whose rounding depends on the rows of the weight."""


@pytest.mark.parametrize("tile", TILES, ids=key)
def test_products_are_right(tile):
    x, weight = torch.randn(2, 130, 128, generator=torch.Generator().manual_seed(0)).unbind()
    torch.testing.assert_close(result(x, weight[:128], tile), x @ weight[:128].T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tile", OF_64, ids=key)
def test_bits_are_compared_with_those_alone(tile, monkeypatch):
    x, weight = torch.randn(2, 130, 128, generator=torch.Generator().manual_seed(1)).unbind()
    assert keeps(x, weight[:128], tile)
    monkeypatch.setattr(tiles, "result", lambda x, *rest: result(x, *rest) + 1e-5 * (len(x) == tiles.FEW))
    assert not keeps(x, weight[:128], tile)
