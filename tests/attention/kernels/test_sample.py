"""Tokens picked on the device against the sampler's, settings of every kind in one batch."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from glimpse.attention.triton.picking import RowSettings, Sample, SampleConfig
from glimpse.sampling.law import Laws, entropy_of, pick
from glimpse.sampling.noise import Role
from glimpse.sampling.truncation import Cuts, truncate

OFF = 1 << 40
SMALL = SampleConfig(group=8, groups=4, tile=256, few=16, room=64, reach=12, warps=4)
# temperature, top_k, top_p, min_p
SETTINGS = [
    (1.0, 1, math.inf, 0.0),  # greedy
    (1.0, OFF, math.inf, 0.0),
    (0.7, OFF, math.inf, 0.0),
    (0.7, 10, 0.9, 0.0),
    (0.7, 5, math.inf, 0.0),
    (1.0, OFF, 0.8, 0.0),
    (1.3, OFF, 0.999, 0.0),  # reaches past the candidates
    (1.0, 90, 0.95, 0.0),  # more than there are groups
    (0.8, OFF, math.inf, 0.1),
    (0.8, OFF, 0.9, 0.05),
    (2.0, OFF, 0.97, 0.0001),
    (1.5, 120, math.inf, 0.01),
    (0.01, 20, 0.5, 0.0),
]


def settings_of(rows, device):
    columns = list(zip(*rows, strict=True))
    double = {"dtype": torch.float64, "device": device}
    return Cuts(
        torch.tensor(columns[0], **double),
        torch.tensor(columns[1], device=device),
        torch.tensor(columns[2], **double),
        torch.tensor(columns[3], **double).log(),
    )


def device_settings(cuts):
    return RowSettings(cuts.temperature, cuts.top_k, cuts.top_p, cuts.log_min_p)


def right_law(logits, cuts):
    """The sampler's law of each row: ranked and cut in float64."""
    ids, logp = truncate(logits, cuts, logits.shape[1])
    greedy = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
    return Laws(logp, ids, greedy, logits.shape[1])


def compare(logits, rows, *, config=SMALL, role=Role.TARGET, salts=None, seed=0):
    device, count = logits.device, len(logits)
    cuts = settings_of(rows, device)
    generator = torch.Generator().manual_seed(seed)
    seeds = torch.randint(-(1 << 62), 1 << 62, (count,), generator=generator).to(device)
    positions = torch.randint(0, 1 << 20, (count,), generator=generator).to(device)
    laws = right_law(logits.float(), cuts)
    right = pick(laws, seeds, positions, role, 0 if salts is None else salts)
    sample = Sample(count, logits.shape[1], device, role=role, config=config)
    sample.gathered.fill_(-7)
    found = sample(logits, device_settings(cuts), seeds, positions, salts)
    assert found.tokens.tolist() == right.tolist()
    torch.testing.assert_close(found.probabilities, laws.logp_of(right).exp(), rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(found.entropies, entropy_of(logits), rtol=2e-5, atol=2e-5)


def draw(count, vocab, device, scale=3.0, seed=0):
    return (scale * torch.randn(count, vocab, generator=torch.Generator().manual_seed(seed))).to(device)


@pytest.mark.parametrize(("seed", "scale"), [(0, 0.3), (1, 3.0)])
def test_every_kind_of_law(seed, scale, device):
    compare(draw(len(SETTINGS), 160, device, scale, seed), SETTINGS, seed=seed)


def test_the_vocabulary_in_several_tiles(device):
    few = SETTINGS[:2] + SETTINGS[3:4] + SETTINGS[6:8]
    compare(draw(len(few), 160, device, 0.5), few, config=replace(SMALL, tile=64))


def test_bfloat16_logits_full_of_ties(device):
    compare(draw(len(SETTINGS), 160, device, 0.5).bfloat16(), SETTINGS)


def test_values_that_are_all_equal_or_forbidden(device):
    logits = draw(len(SETTINGS), 160, device)
    logits[:, ::2] = -torch.inf
    logits[:, 120:] = 1.0
    compare(logits, SETTINGS)
    compare(torch.zeros_like(logits)[3:8], SETTINGS[3:8])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_token_left(dtype, device):
    logits = torch.full((len(SETTINGS), 160), -torch.inf, device=device, dtype=dtype)
    logits[:, 123] = -5.0
    compare(logits, SETTINGS)


def test_noise_of_a_salted_role(device):
    salts = torch.arange(4, device=device) * 1000
    compare(draw(4, 160, device), SETTINGS[1:5], role=Role.DRAFT, salts=salts)


def test_rows_of_a_wider_buffer_and_ids_past_the_vocabulary(device):
    wide, keyed = draw(5, 180, device), torch.arange(5, device=device)
    wide[:, 160:] = 50.0
    cuts = settings_of(SETTINGS[:5], device)
    found = Sample(5, 160, device, config=SMALL)(wide, device_settings(cuts), keyed, keyed)
    right = pick(right_law(wide[:, :160], cuts), keyed, keyed, Role.TARGET)
    assert found.tokens.tolist() == right.tolist()


def test_logits_that_are_not_numbers_give_a_legal_token(device):
    logits = draw(len(SETTINGS), 160, device)
    logits[:, 7] = torch.nan
    cuts = settings_of(SETTINGS, device)
    zeros = torch.zeros(len(SETTINGS), dtype=torch.int64, device=device)
    found = Sample(len(SETTINGS), 160, device, config=SMALL)(logits, device_settings(cuts), zeros, zeros)
    assert ((found.tokens >= 0) & (found.tokens < 160)).all()
