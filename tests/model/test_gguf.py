"""GGUF files: the container, the spec, dequantised weights, and broken files."""

import os
import struct
import time

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType

from glimpse.errors import ArgumentError, ModelError
from glimpse.model import load_checkpoint
from glimpse.model.gguf_config import spec_from_gguf
from glimpse.model.rope_scaling import Llama3, Yarn
from glimpse.model.weights.gguf import GgufWeights
from glimpse.model.weights.gguf_file import open_gguf
from tests.model.dense import logits_of
from tests.model.gguf_files import write_tiny_gguf
from tests.model.peer import random_tokens
from tests.tiny import NAMES, tiny_config, tiny_decoder


def config(architecture="llama", **overrides):
    return tiny_config(architecture, vocab_size=300, **overrides)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("architecture", NAMES)
def test_a_gguf_model_equals_the_same_weights_in_memory(tmp_path, architecture, tied):
    path = write_tiny_gguf(tmp_path / "m.gguf", config(architecture, tie_word_embeddings=tied))
    checkpoint = load_checkpoint(path)
    tokens = random_tokens(20, 300)
    expected = logits_of(tiny_decoder(architecture, vocab_size=300, tie_word_embeddings=tied), tokens)
    torch.testing.assert_close(logits_of(checkpoint.decoder, tokens), expected, rtol=0, atol=1e-4)
    assert checkpoint.spec.tied is tied
    assert checkpoint.spec.eos_token_ids == (2,)
    assert checkpoint.name == "tiny"


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_1", "Q5_0"])
def test_quantised_matrices_are_dequantised_as_the_gguf_package_does(tmp_path, kind):
    kind = GGMLQuantizationType[kind]
    raw = config(hidden_size=64, head_dim=16, num_attention_heads=4, num_key_value_heads=2)
    path = write_tiny_gguf(tmp_path / "m.gguf", raw, kind=kind)
    file = open_gguf(path)
    source = GgufWeights(file)
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    for name in ("model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight"):
        tensor = stored[{"model.embed_tokens.weight": "token_embd.weight"}.get(name, "blk.1.ffn_down.weight")]
        expected = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
        assert torch.equal(source.tensor(name), expected)
        assert torch.equal(source.rows(name).read([5, 0]), expected[[5, 0]])


def test_metadata_and_places_equal_those_of_the_gguf_package(tmp_path):
    path = write_tiny_gguf(tmp_path / "m.gguf", config("qwen3"), metadata={"x.list": [1.5, 2.5], "x.flag": True})
    ours, theirs = open_gguf(path), gguf.GGUFReader(path)
    fields = {key: field.contents() for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert ours.metadata == fields
    assert {t.name: t.data_offset for t in theirs.tensors} == {n: t.offset for n, t in ours.tensors.items()}


def test_stored_frequency_divisors_stand_for_llama3(tmp_path):
    scaling = Llama3(8.0, 1.0, 4.0, 16)
    plain = 10000.0 ** (-np.arange(0, 8, 2, dtype=np.float32) / 8)
    divisors = plain / scaling.frequencies(10000.0, 8).numpy()
    path = write_tiny_gguf(tmp_path / "m.gguf", config(), extra={"rope_freqs.weight": divisors.astype(np.float32)})
    rope = spec_from_gguf(open_gguf(path)).rope
    torch.testing.assert_close(rope.scaling.frequencies(rope.theta, 8), scaling.frequencies(10000.0, 8))


def test_yarn_metadata(tmp_path):
    keys = {"type": "yarn", "factor": 4.0, "original_context_length": 512}
    metadata = {f"qwen2.rope.scaling.{key}": value for key, value in keys.items()}
    spec = spec_from_gguf(open_gguf(write_tiny_gguf(tmp_path / "m.gguf", config("qwen2"), metadata=metadata)))
    assert isinstance(spec.rope.scaling, Yarn)
    assert spec.rope.scaling.attention_factor == pytest.approx(1.1386294)
    assert spec.context_length == 2048


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"general.architecture": "gemma3"}, "'gemma3' is not supported; these are: llama, qwen2, qwen3"),
        ({"llama.expert_count": 8}, "mixture of experts"),
        ({"llama.attention.sliding_window": 128}, "sliding window of 128"),
        ({"llama.rope.scaling.type": "longrope"}, "'longrope' is not supported"),
        ({"llama.rope.dimension_count": 4}, "part of a head"),
        ({"llama.block_count": None}, "llama.block_count is missing"),
        ({"llama.attention.head_count_kv": 4}, "cannot share"),
        ({"llama.attention.head_count": [6, 6]}, "metadata of 'llama' is not usable"),
        ({"llama.attention.head_count": 0}, "metadata of 'llama' is not usable"),
        ({"llama.block_count": "two"}, "metadata of 'llama' is not usable"),
        ({"tokenizer.ggml.merges": ["zz yy"]}, "tokenizer cannot be read"),
        ({"split.count": 2}, "split GGUF"),
        ({"tokenizer.ggml.model": "bert"}, "tokenizer 'bert' is not supported"),
        ({"tokenizer.ggml.pre": "deepseek"}, "'deepseek' is not supported"),
        ({"tokenizer.ggml.merges": None}, "tokenizer.ggml.merges is missing"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path, metadata, message):
    path = write_tiny_gguf(tmp_path / "m.gguf", config(), metadata=metadata)
    with pytest.raises(ModelError, match=message) as error:
        load_checkpoint(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("skip", ["model.embed_tokens.weight", "model.layers.1.mlp.up_proj.weight"])
def test_a_missing_tensor_is_named(tmp_path, skip):
    path = write_tiny_gguf(tmp_path / "m.gguf", config(), skip=(skip,))
    with pytest.raises(ModelError, match=r"m.gguf.*is missing"):
        load_checkpoint(path)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_one_clear_error(tmp_path, share):
    path = write_tiny_gguf(tmp_path / "m.gguf", config())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModelError, match=r"m\.gguf") as error:
        load_checkpoint(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"GGUF\x01\x00\x00\x00", b"GGUF\x00\x00\x00\x03"])
def test_other_content_is_one_clear_error(tmp_path, start):
    path = tmp_path / "m.gguf"
    path.write_bytes(start + bytes(1000))
    with pytest.raises(ModelError, match=r"not a GGUF file|version"):
        load_checkpoint(path)


def test_random_bytes_in_the_head_never_escape_as_other_errors(tmp_path):
    path = write_tiny_gguf(tmp_path / "m.gguf", config())
    whole = bytearray(path.read_bytes())
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(100):
        broken = bytearray(whole)
        for at in generator.integers(8, 9000, 4):
            broken[at] = generator.integers(256)
        path.write_bytes(broken)
        try:
            open_gguf(path)
        except ModelError:
            refused += 1
    assert refused > 10


def test_a_missing_file_is_an_argument_error(tmp_path):
    with pytest.raises(ArgumentError, match="no such GGUF file"):
        load_checkpoint(tmp_path / "none.gguf")


HEAD = b"GGUF" + struct.pack("<I", 3)


@pytest.mark.parametrize(
    ("head", "size", "said"),
    [
        (struct.pack("<QQQ1sIIQ", 0, 1, 1, b"a", 9, 0, 40 << 20), 40 << 20, "41,943,040 values"),
        (struct.pack("<QQQ1sIIQ", 0, 1, 1, b"a", 9, 9, 9 << 20), 12 * 9 << 20, "9,437,184 values"),
        (struct.pack("<QQ", 0, 1 << 60), 40 << 20, "1,152,921,504,606,846,976 values"),
        (struct.pack("<QQ", 1 << 60, 0), 40 << 20, "1,152,921,504,606,846,976 values"),
        (struct.pack("<QQQ1sI", 1, 0, 1, b"a", 2**32 - 1), 80 << 20, "4,294,967,295 values"),
        (struct.pack("<QQQ", 0, 1, 200 << 20), 201 << 20, "a text of 209715200 bytes"),
    ],
    ids=["bytes", "lists", "fields", "tensors", "dimensions", "text"],
)
def test_a_head_that_would_take_more_memory_than_any_is_refused(tmp_path, head, size, said):
    """A file of a few hundred megabytes (zeros behind a head of 50 bytes) took gigabytes, and half a minute."""
    path = tmp_path / "m.gguf"
    path.write_bytes(HEAD + head)
    os.truncate(path, len(HEAD + head) + size)
    begun = time.process_time()
    with pytest.raises(ModelError, match=said):
        open_gguf(path)
    assert time.process_time() - begun < 2
