"""Adapter files: what is written is read, and a bad one is refused with the reason."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.adapters import write_random_adapter

from glimpse.drafting.block.adapter import FORMAT, read_adapter, shapes_of
from glimpse.errors import ArgumentError, GlimpseError, ModelError
from glimpse.llm import LLM


@pytest.fixture
def facts(tiny):
    return tiny.spec, tiny.loaded.checkpoint.fingerprint


@pytest.fixture
def file(tiny, tmp_path):
    return write_random_adapter(tmp_path / "adapter.safetensors", tiny)


def rewrite(file, config=None, **tensors):
    """The file with other tensors (None removes one) or entries of its config."""
    with safe_open(file, "pt") as opened:
        facts = json.loads(opened.metadata()["glimpse"])
    facts["config"] |= config or {}
    old = load_file(file) | tensors
    kept = {name: value for name, value in old.items() if value is not None}
    save_file(kept, file, {"glimpse": json.dumps(facts)})


def test_what_is_written_is_read(file, facts):
    adapter = read_adapter(file, *facts)
    assert adapter.config.size == 4
    assert {name: tuple(tensor.shape) for name, tensor in adapter.tensors.items()} == shapes_of(
        facts[0], adapter.config
    )
    assert all(tensor.dtype == torch.bfloat16 for tensor in adapter.tensors.values())


def test_another_target_is_refused(file, facts):
    with pytest.raises(ModelError, match=r"made for tiny \(\w{16}\), and this model is another \(feedbeef\)"):
        read_adapter(file, facts[0], "feedbeef")


def test_a_model_that_was_never_stored_has_no_fingerprint(file, facts):
    with pytest.raises(ModelError, match="another \\(one without a fingerprint\\)"):
        read_adapter(file, facts[0], "")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_file_cut_short_is_refused(file, facts, share):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelError, match="not a whole safetensors file"):
        read_adapter(file, *facts)


def test_a_file_that_is_not_there(tmp_path, facts):
    with pytest.raises(ArgumentError, match="no such adapter"):
        read_adapter(tmp_path / "none", *facts)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"mask": torch.zeros(47)}, r"tensor 'mask' has shape \[47\], not \[48\]"),
        ({"layers.1.qkv_up": None}, "tensor 'layers.1.qkv_up' is missing"),
        ({"layers.0.qkv_up": torch.zeros(3)}, "tensor 'layers.0.qkv_up' is not one of an adapter"),
        ({"mask": torch.full((48,), torch.nan)}, "tensor 'mask' has values that are not finite"),
        ({"mask": torch.zeros(48, dtype=torch.int64)}, "tensor 'mask' is int64, no float"),
        ({"mask": torch.zeros(48, dtype=torch.complex64)}, "tensor 'mask' is complex64, no float"),
        ({"mask": torch.zeros(48).to(torch.float8_e4m3fn)}, "tensor 'mask' is float8_e4m3fn, no float"),
    ],
)
def test_wrong_tensors_are_refused(file, facts, tensors, message):
    rewrite(file, **tensors)
    with pytest.raises(ModelError, match=message):
        read_adapter(file, *facts)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"size": "4"}, "size '4', which is no int"),
        ({"size": 0}, "blocks of 0"),
        ({"first": 7}, "from layer 7 of 2"),
        ({"more": 1}, "its config cannot be read"),
    ],
)
def test_wrong_configs_are_refused(file, facts, config, message):
    rewrite(file, config)
    with pytest.raises(ModelError, match=message):
        read_adapter(file, *facts)


def test_another_kind_of_file_is_refused(file, facts):
    save_file({"x": torch.zeros(1)}, file)
    with pytest.raises(ModelError, match=f"not a block adapter \\(format None, not '{FORMAT}'\\)"):
        read_adapter(file, *facts)


def test_facts_too_deep_to_read_and_a_name_that_no_file_has(file, facts):
    save_file({"x": torch.zeros(1)}, file, {"glimpse": "[" * 100_000})
    with pytest.raises(ModelError, match="not a whole safetensors file"):
        read_adapter(file, *facts)
    with pytest.raises(ArgumentError, match="no such adapter: File name too long: xxx"):
        read_adapter(file.with_name("x" * 400).relative_to(file.parent), *facts)


def test_what_is_not_there_is_known_before_the_model_is_loaded():
    with pytest.raises(ArgumentError, match="no such adapter: nowhere"):
        LLM("no such model", drafter="block", adapter="nowhere")


def test_an_adapter_means_nothing_to_other_drafters(tiny, tiny_folder):
    for name, value in (("adapter", "x"), ("block_mode", "parallel")):
        with pytest.raises(ArgumentError, match=f"{name} '{value}' means nothing to drafter 'lookup'"):
            LLM(tiny_folder, drafter="lookup", **{name: value})
    with pytest.raises(GlimpseError, match="block_mode must be"):
        tiny.variant(drafter="block", block_mode="both")
