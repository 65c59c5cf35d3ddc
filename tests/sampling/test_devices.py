"""A GPU makes the same noise and the same laws as the CPU."""

import pytest
import torch

from glimpse.sampling import Nodes, Role, Sampler, SamplingParams
from glimpse.sampling.noise import keys, uniform

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_noise_is_equal_to_the_bit():
    seeds, positions, ids = torch.arange(-3, 4), torch.arange(7) * 1000, torch.arange(5000)
    there = [t.cuda() for t in (seeds, positions, ids)]
    assert torch.equal(keys(seeds, positions, Role.DRAFT, 9), keys(*there[:2], Role.DRAFT, 9).cpu())
    here = uniform(seeds, positions, Role.DRAFT, 9, ids)
    assert torch.equal(here, uniform(*there[:2], Role.DRAFT, 9, there[2]).cpu())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0},
        {"top_k": 50, "top_p": 0.9, "repetition_penalty": 1.2, "frequency_penalty": 0.1},
        {"top_p": 0.95, "logit_bias": {3: 2.0}, "suppress_tokens": [1], "bad_words": [[4, 5]], "min_tokens": 3},
    ],
)
def test_laws_are_equal(options):
    logits = torch.randn(3, 5000, generator=torch.Generator().manual_seed(0)) * 3
    laws = []
    for device in ("cpu", "cuda"):
        sampler = Sampler(1, 5000, device=device)
        sampler.admit(0, SamplingParams(seed=1, **options).resolve({}), [1, 2], [0])
        nodes = Nodes.verifying([0], [2], [0], [4, 5], [-1, 0], [0, 2], device=device)
        laws.append(sampler.laws(logits.to(device), nodes).probs().cpu())
    assert torch.equal(laws[0] > 0, laws[1] > 0)
    assert torch.allclose(*laws, atol=1e-6)
