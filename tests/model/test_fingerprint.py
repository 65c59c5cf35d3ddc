"""Which checkpoint it is, however it was loaded."""

from __future__ import annotations

import pytest
import torch

from glimpse.model import load_checkpoint
from tests.tiny import write_tiny_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("print") / "a")


def test_the_loaded_dtype_does_not_matter(folder):
    found = {load_checkpoint(folder, dtype=dtype).fingerprint for dtype in (torch.float32, torch.bfloat16)}
    assert len(found) == 1
    assert len(found.pop()) == 16


def test_another_model_of_the_same_shape_is_another(folder, tmp_path):
    other = write_tiny_checkpoint(tmp_path / "b", seed=1)
    assert load_checkpoint(other).fingerprint != load_checkpoint(folder).fingerprint


def test_so_is_one_whose_last_keys_were_tuned(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    other = write_tiny_checkpoint(tmp_path / "c")
    assert load_checkpoint(other).fingerprint == load_checkpoint(folder).fingerprint
    weights = load_file(other / "model.safetensors")
    weights["model.layers.1.self_attn.k_proj.weight"][0, 0] += 1e-3
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    assert load_checkpoint(other).fingerprint != load_checkpoint(folder).fingerprint
