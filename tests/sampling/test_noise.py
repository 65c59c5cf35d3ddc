"""The noise: the documented recipe to the bit, and the statistics of what it yields."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from glimpse.sampling.noise import Role, child_seed, draft_salt, gumbel, keys, to_int64, uniform

MASK = (1 << 64) - 1
PHI = 0x9E3779B97F4A7C15
ZERO = torch.zeros(1, dtype=torch.int64)
GOLDEN_KEY = -1833405127366507680
GOLDEN_UNIFORMS = [0.002944124396890402, 0.7516866326332092, 0.20868559181690216]


def mix(z):
    """The recipe of the docstring in unbounded Python integers."""
    z &= MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def recipe_key(seed, position, role, salt):
    k = mix(seed + PHI)
    k = mix((k ^ position) + PHI)
    return mix((k ^ (16 * salt + role)) + PHI)


def recipe_uniform(seed, position, role, salt, token):
    h = mix(recipe_key(seed, position, role, salt) + PHI * token)
    return min((np.float32(h >> 11) + np.float32(0.5)) * np.float32(2.0**-53), np.float32(1 - 2**-24))


def ints(*values):
    return torch.tensor([to_int64(value) for value in values])


@pytest.mark.parametrize("seed", [0, 1, -1, 7, 1 << 63, (1 << 64) - 2, -(1 << 63), 0xDEADBEEFCAFEF00D])
@pytest.mark.parametrize(("position", "salt"), [(0, 0), (8191, 5), (1 << 40, 1 << 33)])
def test_the_recipe_is_followed_to_the_bit(seed, position, salt):
    for role in Role:
        key = keys(ints(seed), torch.tensor([position]), role, salt)
        assert int(key) == to_int64(recipe_key(seed & MASK, position, int(role), salt))
        got = uniform(ints(seed), torch.tensor([position]), role, salt, torch.tensor([0, 1, 49151, 200_000]))
        assert got[0].tolist() == [recipe_uniform(seed & MASK, position, role, salt, t) for t in (0, 1, 49151, 200_000)]


def test_golden_values_never_change():
    assert int(keys(ints(1), torch.tensor([2]), Role.TARGET)) == GOLDEN_KEY
    assert uniform(ints(1), torch.tensor([2]), Role.DRAFT, 3, torch.tensor([0, 1, 2])).tolist() == [GOLDEN_UNIFORMS]


def test_full_seed_range_gives_different_noise():
    seeds = ints(0, 1, -1, -2, 1 << 62, 1 << 63, (1 << 63) + 1, (1 << 64) - 3)
    noise = uniform(seeds, torch.zeros_like(seeds), Role.TARGET, 0, torch.arange(4))
    assert len({tuple(row) for row in noise.tolist()}) == len(seeds)


def test_tensor_salts_equal_number_salts():
    seeds, positions, ids = torch.tensor([5, 6]), torch.tensor([9, 9]), torch.arange(5)
    together = uniform(seeds, positions, Role.DRAFT, torch.tensor([3, 4]), ids)
    for row, salt in enumerate((3, 4)):
        alone = uniform(seeds[row : row + 1], positions[row : row + 1], Role.DRAFT, salt, ids)
        assert torch.equal(together[row : row + 1], alone)


def test_uniform_and_inside_the_open_interval():
    u = uniform(ints(3), torch.tensor([10]), Role.TARGET, 0, torch.arange(1 << 20))[0]
    assert u.min() > 0
    assert u.max() < 1
    counts = torch.histc(u, 256, 0, 1).numpy()
    assert stats.chisquare(counts).pvalue > 1e-4


def test_small_values_are_finely_resolved():
    u = uniform(ints(3), torch.tensor([10]), Role.TARGET, 0, torch.arange(1 << 22))[0].double()
    small = u[u < 2**-12]
    assert 850 < len(small) < 1200, "about 1,024 are right"
    assert len(small.unique()) == len(small), "a grid of 2^-24 would hold equal values here"
    assert stats.kstest((small * 2**12).numpy(), "uniform").pvalue > 1e-4


def test_gumbel_law():
    g = gumbel(ints(11), torch.tensor([4]), Role.TARGET, 0, torch.arange(200_000))[0]
    assert torch.isfinite(g).all()
    assert stats.kstest(g.double().numpy(), "gumbel_r").pvalue > 1e-4
    share = float((g > 8).double().mean())
    right = -math.expm1(-math.exp(-8))
    assert abs(share - right) < 4 * math.sqrt(right / 200_000)


def neighbours(what):
    """Two long vectors of uniforms whose keys differ by one in `what`."""
    n = torch.arange(60_000)
    zeros = torch.zeros_like(n)
    made = {
        "seed": lambda d: uniform(n + d, zeros, Role.TARGET, 0, ZERO),
        "position": lambda d: uniform(zeros, n + d, Role.TARGET, 0, ZERO),
        "id": lambda d: uniform(ZERO, ZERO, Role.TARGET, 0, n + d).T,
        "salt": lambda d: uniform(zeros, zeros + 3, Role.DRAFT, n + d, ZERO),
        "role": lambda d: uniform(n, zeros, Role.TARGET if d else Role.DRAFT, 0, ZERO),
        "accept and residual": lambda d: uniform(n, zeros, Role.ACCEPT if d else Role.RESIDUAL, 0, ZERO),
        "seed and position": lambda d: uniform(n + d, n - d + 1, Role.TARGET, 0, ZERO),
        "position and id": lambda d: uniform(zeros, n + d, Role.TARGET, 0, ZERO + 1 - d),
    }[what]
    return made(0).flatten(), made(1).flatten()


@pytest.mark.parametrize(
    "what", ["seed", "position", "id", "salt", "role", "accept and residual", "seed and position", "position and id"]
)
def test_neighbours_are_independent(what):
    a, b = neighbours(what)
    cells = torch.bincount((a * 16).long() * 16 + (b * 16).long(), minlength=256).numpy()
    assert stats.chisquare(cells).pvalue > 1e-4
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / math.sqrt(len(a))
    low = (a * 2**20).long() % 16 * 16 + (b * 2**20).long() % 16
    assert stats.chisquare(torch.bincount(low, minlength=256).numpy()).pvalue > 1e-4


def test_serial_correlation_at_several_lags():
    u = uniform(ints(2), torch.tensor([77]), Role.TARGET, 0, torch.arange(100_000))[0].double() - 0.5
    for lag in (1, 2, 3, 64, 128, 49_152 % 100_000):
        r = float((u[:-lag] * u[lag:]).mean() * 12)
        assert abs(r) < 4 / math.sqrt(len(u) - lag), lag


def test_roles_and_salt_never_share_a_key():
    zero = torch.zeros(1, dtype=torch.int64)
    found = {int(keys(zero, zero, role, salt)) for role in Role for salt in range(500)}
    assert len(found) == 500 * len(Role)


def test_draft_salt_is_the_committed_length_only_for_draft_noise():
    committed = torch.tensor([4, 9])
    assert draft_salt(Role.TARGET, committed) == 0
    assert draft_salt(Role.DRAFT, committed) is committed


def test_child_seeds():
    assert child_seed(5, 0) == 5
    assert child_seed((1 << 64) - 1, 0) == -1
    children = {child_seed(seed, i) for seed in range(-50, 50) for i in range(40)}
    assert len(children) == 4000, "no (seed, child) pair collides with another"
    assert all(-(1 << 63) <= seed < 1 << 63 for seed in children)
