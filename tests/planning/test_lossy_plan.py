"""What a lossy mode can buy at most: by hand from the plan's own prices, and where it buys nothing."""

from dataclasses import replace

import pytest
import torch
from tests.tiny import tiny_config

from glimpse.cache.recall import RecallBudget
from glimpse.model.hf_config import spec_from_config
from glimpse.planning import DEVICES, Setting, lossy_plan, make_plan
from glimpse.planning.lossy import SENTENCE
from glimpse.planning.speedup import Acceptance

LARGE = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24, "num_attention_heads": 16,
         "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 49152, "max_position_embeddings": 131072}  # fmt: skip


def plan_of(context, batch):
    spec = spec_from_config(tiny_config("llama", **LARGE))
    setting = Setting(spec, torch.bfloat16, context, batch, DEVICES["h200"], RecallBudget())
    return make_plan(setting, [Acceptance(0.9, 0.9)])


def test_by_hand():
    plan = plan_of(32000, 16)
    found = lossy_plan(plan)
    budget = RecallBudget(floor=4 + 2048 + 256, sinks=4, recent=256)
    prices = replace(plan.setting, budget=budget).prices
    seconds = (SENTENCE - 1) * prices.draft() + prices.full(1) + prices.begin()
    assert found.slowfast == pytest.approx(SENTENCE * prices.full(1) / seconds)
    assert found.relaxed == pytest.approx(plan.sparse(Acceptance(1, 1)).speedup)
    assert 1 < found.lossless < found.relaxed


def test_where_the_cache_is_small_nothing_is_bought():
    found = lossy_plan(plan_of(500, 1))
    assert found.said.startswith("lossy modes buy nothing here: slowfast ")
    assert found.lossless == 1.0


def test_rules_that_run_eagerly_on_a_gpu_are_promised_nothing():
    """On a processor all is eager."""
    plan = plan_of(100_000, 16)
    assert "typical and top-k (other relaxed rules run eagerly on a GPU) at most" in lossy_plan(plan).said
    processor = replace(plan.setting, device=replace(plan.setting.device, gpu=False))
    own = lossy_plan(make_plan(processor, [Acceptance(0.9, 0.9)]))
    assert f"relaxed rules at most {own.relaxed:.2f}x" in own.said


def test_where_it_is_large_something_is():
    assert lossy_plan(plan_of(100_000, 16)).said.startswith("lossy modes could buy up to ")
