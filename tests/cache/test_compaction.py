"""The accepted path of a tree where a chain's keys and values would be."""

import pytest
import torch

from glimpse.cache.compaction import keep_path
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.sequence import Sequence


@pytest.mark.parametrize("path", [[], [0], [0, 1, 2], [1], [0, 2], [2, 3, 9], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]])
@pytest.mark.parametrize("begin", [1, 3, 4])
def test_path_follows_the_text(begin, path):
    """Across pages that do not lie together; what lies before stays, and so does everyone else's."""
    pool = PagePool(CacheShape(2, 3, 4), 12, 4, torch.float32)
    pool.keys.normal_()
    pool.values.normal_()
    sequence = Sequence(pool)
    for end in range(4, 21, 4):
        sequence.reserve(end)
        Sequence(pool).reserve(1)
    slots = sequence.slots_of(torch.arange(20))
    before = [held[:, :, slots].clone() for held in (pool.keys, pool.values)]
    others = torch.ones(48, dtype=torch.bool)
    others[slots] = False
    untouched = pool.keys[:, :, others].clone()
    keep_path(sequence, begin, path)
    wanted = [*range(begin), *(begin + node for node in path)]
    for held, old in zip((pool.keys, pool.values), before, strict=True):
        assert torch.equal(held[:, :, slots[: len(wanted)]], old[:, :, wanted])
    assert torch.equal(pool.keys[:, :, others], untouched)
