"""The demo model, cut to a few layers and grown."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.model.dense import DenseRun, logits_of
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.grow import grow, grow_checkpoint
from glimpse.bench.grow_plan import GrownShape, plan_twin
from glimpse.bench.grow_source import open_source
from glimpse.model.build import build_decoder
from glimpse.model.demo import DEMO, cache_folder, is_cached

SHAPE = GrownShape(hidden_size=1024, heads=16, kv_heads=4, head_dim=128, intermediate_size=2048, layers=5)


@pytest.mark.skipif(not is_cached(), reason="the demo model is not in the cache folder")
def test_the_demo_model_grown_to_a_width_of_1024():
    opened = open_source(cache_folder() / DEMO.file_name)
    cut = replace(opened.spec, layers=4)
    small = build_decoder(cut, opened.weights)
    twin = grow(cut, opened.weights, SHAPE)
    tokens = opened.tokenizer.encode("The quick brown fox jumps over the lazy dog, and then it")
    ours, theirs = logits_of(twin, tokens), logits_of(small, tokens)
    assert (ours - theirs).abs().max() < 2e-4
    assert DenseRun(twin, tokens).greedy(8) == DenseRun(small, tokens).greedy(8)
    assert plan_twin(cut, twin.spec).heads.real == (0, 1, 2, 4, 5, 6, 8, 9, 10)


def test_a_folder_is_grown_with_its_tokenizer_and_says_what_it_is(tmp_path):
    folder = write_tiny_checkpoint(tmp_path / "tiny", generation_config={"temperature": 0.5})
    grown = grow_checkpoint(
        folder, GrownShape(hidden_size=64), dtype=torch.bfloat16, rope_theta=500000.0, context_length=2048
    )
    assert grown.name == "tiny, rotary base 500000, 0M tokens at 0M cost"
    assert grown.generation_defaults == {"temperature": 0.5}
    assert (grown.spec.context_length, grown.spec.rope.theta, grown.spec.hidden_size) == (2048, 500000.0, 64)
    assert grown.decoder.dtype is torch.bfloat16
    assert grown.spec.eos_token_ids == (2,)
    assert grown.tokenizer.decode(grown.tokenizer.encode("hello")) == "hello"
