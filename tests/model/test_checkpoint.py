"""Hugging Face folders: what loads, and one clear line for what does not."""

import json
import pickle

import pytest
import torch

from glimpse.errors import ArgumentError, ModelError
from glimpse.model import load_checkpoint, resolve_model
from glimpse.model.embedding import FileEmbedding
from glimpse.model.linear import can_pack
from tests.model.dense import logits_of
from tests.model.peer import peer_logits, random_tokens, transformers_model
from tests.tiny import NAMES, tiny_config, tiny_decoder, tiny_weights, write_json, write_tiny_checkpoint, write_weights

TOKENS = random_tokens(20, 300)


@pytest.fixture
def folder(tmp_path):
    return write_tiny_checkpoint(tmp_path / "model")


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("architecture", NAMES)
def test_a_folder_gives_the_logits_of_transformers(tmp_path, architecture, tied, shards):
    folder = write_tiny_checkpoint(tmp_path, architecture, shards=shards, tie_word_embeddings=tied)
    checkpoint = load_checkpoint(folder)
    theirs = transformers_model(json.loads((folder / "config.json").read_text()))
    torch.testing.assert_close(logits_of(checkpoint.decoder, TOKENS), peer_logits(theirs, TOKENS), rtol=0, atol=1e-4)
    assert isinstance(checkpoint.decoder.embedding, FileEmbedding) is (tied and can_pack(torch.float32))


@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("tied", [False, True])
def test_stored_dtypes_are_converted(tmp_path, stored, tied):
    folder = write_tiny_checkpoint(tmp_path, dtype=stored, tie_word_embeddings=tied)
    decoder = load_checkpoint(folder, dtype=torch.float32).decoder
    theirs = transformers_model(json.loads((folder / "config.json").read_text()))
    # Weights only: rounding the model as a whole would round its rotary frequencies too.
    theirs.load_state_dict({name: tensor.to(stored).float() for name, tensor in theirs.state_dict().items()})
    assert decoder.dtype == torch.float32
    torch.testing.assert_close(logits_of(decoder, TOKENS), peer_logits(theirs, TOKENS), rtol=0, atol=1e-4)


def test_a_head_stored_beside_a_tied_embedding_is_ignored(tmp_path):
    folder = write_tiny_checkpoint(tmp_path, tie_word_embeddings=True)
    weights = tiny_weights(json.loads((folder / "config.json").read_text()))
    write_weights(folder, weights | {"lm_head.weight": torch.zeros(300, 48)})
    assert logits_of(load_checkpoint(folder).decoder, TOKENS).std() > 0


def test_an_untied_model_without_a_head_is_refused(tmp_path):
    """Case A52."""
    folder = write_tiny_checkpoint(tmp_path, tie_word_embeddings=True)
    write_json(folder / "config.json", tiny_config("llama", vocab_size=300, tie_word_embeddings=False))
    with pytest.raises(ModelError, match=r"model.safetensors: tensor 'lm_head.weight' is missing"):
        load_checkpoint(folder)


def test_progress_counts_up_to_the_end(folder):
    seen = []
    load_checkpoint(folder, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1]


def test_ends_of_text_come_from_all_three_files(tmp_path):
    defaults = {"eos_token_id": [7, 9], "temperature": 0.6, "top_k": None, "transformers_version": "5"}
    folder = write_tiny_checkpoint(tmp_path, eos_token_id=5, generation_config=defaults)
    checkpoint = load_checkpoint(folder)
    assert checkpoint.spec.eos_token_ids == (2, 5, 7, 9)
    assert checkpoint.generation_defaults == {"eos_token_id": [7, 9], "temperature": 0.6}


def test_no_generation_config_gives_no_defaults(folder):
    assert load_checkpoint(folder).generation_defaults == {}


def test_ids_without_a_text_are_known(tmp_path):
    """Case A69: 7 rows more than the tokenizer has texts."""
    checkpoint = load_checkpoint(write_tiny_checkpoint(tmp_path, dead_ids=7))
    assert (checkpoint.tokenizer.vocab_size, checkpoint.spec.vocab_size) == (293, 300)


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path):
    folder = write_tiny_checkpoint(tmp_path, dead_ids=-4)
    with pytest.raises(ModelError, match="tokenizer has 304 tokens but the model only 300"):
        load_checkpoint(folder)


# Bad input


def refused(folder, kind=ModelError):
    with pytest.raises(kind) as error:
        load_checkpoint(folder)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_a_missing_folder_and_one_without_config(tmp_path):
    assert str(tmp_path / "none") in refused(tmp_path / "none", ArgumentError)
    assert "config.json" in refused(tmp_path, ArgumentError)


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe{}"])
def test_a_broken_config(folder, content):
    (folder / "config.json").write_bytes(content)
    assert "config.json" in refused(folder)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.6, 0.999])
def test_truncated_weights(folder, share):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert "model.safetensors: not a whole safetensors file" in refused(folder)


@pytest.mark.parametrize("start", [b"\xff" * 8, b"\x10" + bytes(7) + b"not json at all!"])
def test_a_corrupt_header(folder, start):
    path = folder / "model.safetensors"
    path.write_bytes(start + path.read_bytes()[len(start) :])
    assert "model.safetensors" in refused(folder)


def test_no_weights(folder):
    (folder / "model.safetensors").unlink()
    assert "model.safetensors" in refused(folder)


def test_pickled_weights_are_refused_and_never_opened(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"a": 1}))
    assert "pytorch_model.bin" in refused(folder)


def test_a_missing_tensor_is_named_with_its_file(folder):
    config = json.loads((folder / "config.json").read_text())
    weights = tiny_weights(config)
    del weights["model.layers.1.mlp.up_proj.weight"]
    write_weights(folder, weights)
    message = refused(folder)
    assert "model.safetensors: tensor 'model.layers.1.mlp.up_proj.weight' is missing" in message


def test_a_wrong_shape_names_both(folder):
    config = json.loads((folder / "config.json").read_text())
    write_weights(folder, tiny_weights(config) | {"model.layers.0.self_attn.k_proj.weight": torch.zeros(8, 48)})
    message = refused(folder)
    for part in ("k_proj", "[8, 48]", "[16, 48]"):
        assert part in message


def test_an_unexpected_dtype_is_named(folder):
    config = json.loads((folder / "config.json").read_text())
    weights = tiny_weights(config)
    name = "model.layers.0.mlp.down_proj.weight"
    write_weights(folder, weights | {name: weights[name].to(torch.int8)})
    assert "down_proj.weight' has dtype I8" in refused(folder)


def test_an_index_naming_an_absent_shard(tmp_path):
    folder = write_tiny_checkpoint(tmp_path, shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    assert "model-00002-of-00003.safetensors" in refused(folder)


def test_an_index_naming_a_tensor_its_shard_lacks(tmp_path):
    folder = write_tiny_checkpoint(tmp_path, shards=2)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    moved = dict.fromkeys(index["weight_map"], "model-00001-of-00002.safetensors")
    write_json(path, {"weight_map": moved})
    assert "is missing" in refused(folder)


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"weight_map": 3}', '{"weight_map": {"a": 3}}'])
def test_a_broken_index(tmp_path, content):
    folder = write_tiny_checkpoint(tmp_path, shards=2)
    (folder / "model.safetensors.index.json").write_text(content)
    assert "index.json" in refused(folder)


def test_an_index_cannot_point_outside_its_folder(tmp_path):
    folder = write_tiny_checkpoint(tmp_path / "model", shards=2)
    write_json(folder / "model.safetensors.index.json", {"weight_map": {"a": "../model.safetensors"}})
    assert "beside the index" in refused(folder)


def test_shards_may_be_links(tmp_path):
    """The layout of a hub cache: the folder holds links to files named by their checksum."""
    folder = write_tiny_checkpoint(tmp_path / "model", shards=2)
    expected = logits_of(load_checkpoint(folder).decoder, TOKENS)
    for shard in folder.glob("*.safetensors"):
        shard.rename(tmp_path / f"blob-{shard.stem}")
        shard.symlink_to(tmp_path / f"blob-{shard.stem}")
    assert torch.equal(logits_of(load_checkpoint(folder).decoder, TOKENS), expected)


def test_a_missing_or_broken_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{}")
    assert "tokenizer" in refused(folder)
    (folder / "tokenizer.json").unlink()
    assert "tokenizer.json" in refused(folder)


def test_a_broken_generation_config(folder):
    (folder / "generation_config.json").write_text("{")
    assert "generation_config.json" in refused(folder)


def test_names_of_models(folder, tmp_path):
    assert resolve_model(str(folder)) == folder
    (tmp_path / "notes.txt").write_text("x")
    for name in ("no-such-model", str(tmp_path / "notes.txt")):
        with pytest.raises(ArgumentError, match=name):
            resolve_model(name)


def test_two_loads_of_one_folder_are_alike(folder):
    first, second = (logits_of(load_checkpoint(folder).decoder, TOKENS) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, logits_of(tiny_decoder(vocab_size=300, seed=1), TOKENS))
