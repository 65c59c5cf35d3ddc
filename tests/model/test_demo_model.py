"""The demo model itself: logits, text and memory. Skipped where it is neither cached nor can be fetched."""

import os
import subprocess
import sys

import gguf
import pytest
import torch

from glimpse.errors import GlimpseError
from glimpse.model import load_checkpoint, resolve_model
from tests.model.dense import DenseRun, logits_of

PROMPT = "The capital of France is Paris, and the capital of Italy is"


@pytest.fixture(scope="module")
def path():
    try:
        return resolve_model("demo")
    except GlimpseError as error:
        pytest.skip(f"no demo model: {error}")


@pytest.fixture(scope="module")
def checkpoint(path):
    return load_checkpoint(path)


def test_spec(checkpoint):
    spec = checkpoint.spec
    assert (spec.layers, spec.heads, spec.kv_heads, spec.head_dim) == (30, 9, 3, 64)
    assert (spec.vocab_size, spec.context_length, spec.rope.theta, spec.tied) == (49_152, 8192, 100_000.0, True)
    assert spec.eos_token_ids == (2,)
    assert spec.parameters() == 134_515_008
    assert spec.kv_bytes_per_token(torch.bfloat16) == 23_040


def test_logits_equal_transformers(checkpoint, path):
    """Both round differently: against a run with exact products either is off by about 1e-4 at the most."""
    tokens = checkpoint.tokenizer.encode(PROMPT)
    with torch.inference_mode():
        theirs = transformers_copy(path)(torch.tensor([tokens])).logits[0]
    torch.testing.assert_close(logits_of(checkpoint.decoder, tokens), theirs, rtol=2e-6, atol=1e-4)


def transformers_copy(path):
    """transformers' Llama with the file's weights, read by the gguf package (its own loader needs accelerate)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=49_152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 30)
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    weights = {}
    for name in model.state_dict():
        if name == "lm_head.weight":
            continue
        tensor = stored[names.get_name(name.removesuffix(".weight")) + ".weight"]
        weight = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
        heads = {"q_proj": 9, "k_proj": 3}.get(name.split(".")[-2])
        if heads:
            weight = weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
        weights[name] = weight
    model.load_state_dict(weights, assign=True, strict=False)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()


def test_text(checkpoint):
    run = DenseRun(checkpoint.decoder, checkpoint.tokenizer.encode(PROMPT))
    assert checkpoint.tokenizer.decode(run.greedy(2)).startswith(" Rome")


def test_chat_ids(checkpoint):
    tokenizer = checkpoint.tokenizer
    ids = tokenizer.chat([{"role": "user", "content": "Say <|im_end|> twice"}])
    assert ids.count(1) == 3  # system, user, assistant
    assert ids.count(2) == 2
    assert "Say <|im_end|> twice<|im_end|>" in tokenizer.decode(ids, skip_special_tokens=False)


def test_peak_memory_is_the_weights_and_little_more(path):
    """At most 1.2 times the weights on top of what the process had before, tokenizer included."""
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    places = os.pathsep.join(sys.path)  # of an editable install or pytest's own
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": places},
    )
    assert done.returncode == 0, done.stderr
    peak, weights = map(int, done.stdout.split())
    assert peak <= 1.2 * weights


MEASURE = """
import re, sys
from pathlib import Path
import torch, transformers
from transformers import PreTrainedTokenizerFast
from glimpse.model import load_checkpoint
from glimpse.model.linear import can_pack
can_pack(torch.float32)
def kib(key):
    return int(re.search(key + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
before = kib("VmRSS")
spec = load_checkpoint(Path(sys.argv[1])).spec
print(kib("VmHWM") - before, spec.weight_bytes(torch.float32))
"""
