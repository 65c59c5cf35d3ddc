"""Rotary frequencies against transformers' own functions, and the rotation itself."""

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from glimpse.errors import ModelError
from glimpse.model.hf_config import spec_from_config
from glimpse.model.rope import RopeSpec, Rotary
from glimpse.model.rope_scaling import Dynamic, Plain
from tests.tiny import tiny_config

BIG = {"hidden_size": 512, "num_attention_heads": 8, "head_dim": 64, "max_position_embeddings": 8192, "rope_theta": 5e5}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 2048,
    },
    "yarn": YARN,
    "yarn-mscale": YARN | {"mscale": 0.7, "mscale_all_dim": 1.1},
    "yarn-attention": YARN | {"attention_factor": 1.5},
    "yarn-untruncated": YARN | {"truncate": False, "beta_fast": 24, "beta_slow": 2},
}


def both(scaling):
    raw = tiny_config("llama", rope_scaling=dict(SCALINGS[scaling]), **BIG)
    spec = spec_from_config(raw)
    return spec, LlamaConfig.from_dict(dict(raw)), SCALINGS[scaling]["rope_type"]


@pytest.mark.parametrize("scaling", SCALINGS)
def test_frequencies_equal_transformers(scaling):
    spec, config, kind = both(scaling)
    theirs, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu")
    ours = spec.rope.scaling.frequencies(spec.rope.theta, spec.head_dim)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)
    assert spec.rope.scaling.attention_factor == pytest.approx(factor, rel=1e-12)
    assert spec.rope.scaling.kind == kind


@pytest.mark.parametrize("length", [1, 8191, 8192, 8193, 20000, 32768])
def test_dynamic_base_of_each_length(length):
    spec, config, kind = both("dynamic")
    theirs, _ = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=torch.tensor(length))
    lengths = torch.tensor([length, 5])
    ours = spec.rope.scaling.frequencies(spec.rope.theta, spec.head_dim, lengths)
    torch.testing.assert_close(ours[0], theirs, rtol=1e-6, atol=0)
    torch.testing.assert_close(ours[1], Plain().frequencies(spec.rope.theta, spec.head_dim), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("scaling", "expected"), [("linear", 8192), ("dynamic", 32768), ("llama3", 8192), ("yarn", 8192)]
)
def test_context_length(scaling, expected):
    assert both(scaling)[0].context_length == expected


def test_yarn_context_is_what_it_stretches_to():
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    assert spec_from_config(tiny_config("qwen2", rope_scaling=scaling, **BIG)).context_length == 32768


@pytest.mark.parametrize("kind", ["longrope", "proportional", "su"])
def test_other_scalings_are_refused_by_name(kind):
    scaling = {"rope_type": kind, "factor": 2.0, "short_factor": [1.0] * 4, "long_factor": [1.0] * 4}
    with pytest.raises(ModelError, match=rf"{kind}.*default, linear, dynamic, llama3, yarn"):
        spec_from_config(tiny_config("llama", rope_scaling=scaling))


def test_a_scaling_without_its_factor_is_one_clear_error():
    with pytest.raises(ModelError, match="factor"):
        spec_from_config(tiny_config("llama", rope_scaling={"rope_type": "linear"}))


def test_partial_rotation_is_refused():
    with pytest.raises(ModelError, match=r"partial_rotary_factor 0\.5"):
        spec_from_config(tiny_config("llama", partial_rotary_factor=0.5))


def test_rotation_turns_pairs_by_their_angle():
    rotary = Rotary(RopeSpec(100.0, 4, Plain()), torch.device("cpu"))
    x = torch.tensor([[[1.0, 0.0, 0.0, 2.0]]])
    turned = rotary.at(torch.tensor([3]), torch.tensor([4]), torch.float32).apply(x)[0, 0]
    fast, slow = 3.0, 3.0 / 10
    expected = torch.tensor([math.cos(fast), -2 * math.sin(slow), math.sin(fast), 2 * math.cos(slow)])
    torch.testing.assert_close(turned, expected)


def test_products_of_rotated_vectors_depend_on_distance_only():
    rotary = Rotary(RopeSpec(10000.0, 16, Plain()), torch.device("cpu"))
    q, k = torch.randn(2, 1, 1, 16, generator=torch.Generator().manual_seed(0))

    def product(at_q, at_k):
        turn = [rotary.at(torch.tensor([at]), torch.tensor([at + 1]), torch.float32) for at in (at_q, at_k)]
        return (turn[0].apply(q) * turn[1].apply(k)).sum()

    torch.testing.assert_close(product(7, 3), product(107, 103), rtol=1e-4, atol=1e-4)


def test_rope_lengths_matter_to_dynamic_only():
    position = torch.tensor([20])
    for scaling, changes in ((Plain(), False), (Dynamic(2.0, 16), True)):
        rotary = Rotary(RopeSpec(10000.0, 8, scaling), torch.device("cpu"))
        near, far = (rotary.at(position, torch.tensor([length]), torch.float32).cos for length in (21, 40))
        assert torch.equal(near, far) is not changes
