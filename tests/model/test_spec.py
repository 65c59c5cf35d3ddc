"""Specs from config.json: defaults, sizes, and what is refused."""

import pytest
import torch

from glimpse.errors import ModelError
from glimpse.model.hf_config import spec_from_config
from tests.tiny import NAMES, tiny_config, tiny_weights


@pytest.mark.parametrize("architecture", NAMES)
@pytest.mark.parametrize("tied", [False, True])
def test_parameters_count_every_weight_once(architecture, tied):
    config = tiny_config(architecture, tie_word_embeddings=tied)
    spec = spec_from_config(config)
    total = sum(tensor.numel() for tensor in tiny_weights(config).values())
    assert spec.parameters() == total
    assert spec.weight_bytes(torch.bfloat16) == 2 * total
    looked_up = 0 if tied else spec.vocab_size * spec.hidden_size
    assert spec.step_weight_bytes(torch.bfloat16) == 2 * (total - looked_up)


def test_biases_are_counted():
    config = tiny_config("llama", attention_bias=True, mlp_bias=True)
    assert spec_from_config(config).parameters() == sum(t.numel() for t in tiny_weights(config).values())


def test_cache_bytes_do_not_repeat_heads():
    """Case A51: the shape of SmolLM2-135M takes 23,040 bytes a token in bf16."""
    shape = {"num_hidden_layers": 30, "hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3}
    spec = spec_from_config(tiny_config("llama", head_dim=64, **shape))
    assert spec.kv_bytes_per_token(torch.bfloat16) == 23_040


def test_defaults_are_those_of_transformers():
    spec = spec_from_config({"architectures": ["LlamaForCausalLM"], "num_attention_heads": 32})
    assert (spec.vocab_size, spec.layers, spec.kv_heads, spec.head_dim) == (32000, 32, 32, 128)
    assert (spec.norm_eps, spec.rope.theta, spec.context_length, spec.tied) == (1e-6, 10000.0, 2048, False)


@pytest.mark.parametrize(("value", "ids"), [(None, ()), (2, (2,)), ([2, 7], (2, 7))])
def test_end_of_text_ids(value, ids):
    raw = tiny_config("llama") | {"eos_token_id": value}
    assert spec_from_config(raw).eos_token_ids == ids


@pytest.mark.parametrize(
    "name", ["GPT2LMHeadModel", "Gemma3ForCausalLM", "MixtralForCausalLM", "LlamaForSequenceClassification"]
)
def test_other_architectures_are_refused_with_the_list(name):
    with pytest.raises(ModelError) as error:
        spec_from_config(tiny_config("llama") | {"architectures": [name]}, "x/config.json")
    for part in ("x/config.json", name, *NAMES.values()):
        assert part in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("architecture", "extra"),
    [
        ("mistral", {"sliding_window": 4096}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 0}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 99}),
        ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}),
    ],
)
def test_sliding_windows_are_refused(architecture, extra):
    with pytest.raises(ModelError, match="sliding"):
        spec_from_config(tiny_config(architecture) | extra)


def test_mistral_without_a_word_on_windows_has_one_by_default():
    raw = tiny_config("mistral")
    del raw["sliding_window"]
    with pytest.raises(ModelError, match="sliding window of 4096"):
        spec_from_config(raw)


def test_an_unused_window_setting_is_fine():
    assert spec_from_config(tiny_config("qwen2", use_sliding_window=False, sliding_window=64)).architecture == "qwen2"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantised checkpoint .gptq."),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"num_key_value_heads": 4}, "6 query heads cannot share 4 KV heads"),
        ({"head_dim": 7}, "head_dim"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"num_hidden_layers": "two"}, "num_hidden_layers"),
        ({"hidden_size": 50, "head_dim": 8}, "not a valid llama configuration"),
        ({"architectures": None, "model_type": "rwkv"}, "rwkv"),
        ({"architectures": [["LlamaForCausalLM"]]}, "is not supported"),
        ({"num_attention_heads": 0}, "not a valid llama|heads is 0"),
        ({"max_position_embeddings": -5}, "context_length is -5"),
    ],
)
def test_unusable_settings_are_named(extra, message):
    with pytest.raises(ModelError, match=message) as error:
        spec_from_config(tiny_config("llama") | extra)
    assert "\n" not in str(error.value)
