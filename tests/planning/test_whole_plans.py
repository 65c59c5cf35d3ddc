"""Bytes, operations and advice for whole settings, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.tiny import tiny_config, write_json

from glimpse.bench.grow import SHAPES
from glimpse.bench.grow_plan import twin_spec
from glimpse.cache.recall import RecallBudget
from glimpse.errors import ArgumentError, ModelError
from glimpse.model.demo import DEMO, cache_folder, is_cached
from glimpse.planning import DEVICES, Acceptance, Device, Setting, advise, find_device, make_plan, read_spec
from glimpse.planning.models import DEMO_SPEC
from glimpse.planning.overheads import Overheads
from glimpse.planning.work import step_work

LARGE = twin_spec(DEMO_SPEC, SHAPES["llama-3.1-8b"])
BF16 = torch.bfloat16
H200 = DEVICES["h200"]
FLOORS = replace(H200, overheads=Overheads())
TYPICAL = Acceptance(0.94, 0.86)


def plan(spec, context, batch, device=H200, dtype=BF16, budget=None):
    return make_plan(Setting(spec, dtype, context, batch, device, budget or RecallBudget()), [TYPICAL])


def test_what_a_step_moves_and_computes():
    """Llama-3.1-8B: 8.03e9 weights, 525e6 of them an embedding that is only looked up; 131,072 cache bytes a token."""
    assert LARGE.step_weight_bytes(BF16) == 2 * (8_030_261_248 - 128256 * 4096)
    assert DEMO_SPEC.step_weight_bytes(torch.float32) == 4 * 134_515_008
    work = step_work(LARGE, BF16, batch=16, tokens=9, positions=1000)
    assert work.head.bytes == 2 * 128256 * 4096
    assert work.head.operations == 2 * 128256 * 4096 * 16 * 9
    assert work.linears.bytes + work.head.bytes == LARGE.step_weight_bytes(BF16)
    assert work.attention.bytes == 131_072 * 16 * 1000
    assert work.attention.operations == 4 * 32 * 32 * 128 * 16 * 9 * 1000


def test_a_step_takes_the_larger_of_both_in_each_of_its_parts():
    work = step_work(LARGE, BF16, batch=512, tokens=9, positions=100)
    seconds = work.seconds(4.3e12, 780e12)
    assert seconds == pytest.approx(
        work.linears.operations / 780e12 + work.attention.bytes / 4.3e12 + work.head.operations / 780e12
    )


def test_floors_of_the_8b_shape_on_an_h200():
    """Measured on an H200: floors of 3.5 to 3.7 ms for a draft step over 256 positions; r = 1 near 122K tokens."""
    found = plan(LARGE, 8192, 1, device=FLOORS)
    assert found.plain_seconds * 1e3 == pytest.approx((15.01e9 + 8192 * 131072) / 4.3e9, rel=1e-3)
    draft = Setting(LARGE, BF16, 256, 1, FLOORS).prices.full(1)
    assert 3.49 <= draft * 1e3 <= 3.7
    assert plan(LARGE, 122_000, 1).r == pytest.approx(1.06, abs=0.01)
    crowded = plan(LARGE, 32768, 16, device=FLOORS, budget=RecallBudget(share=0.001, floor=512))
    assert crowded.c_bytes == pytest.approx((1 + crowded.r / 64) / (1 + crowded.r))
    assert crowded.c == pytest.approx(crowded.c_bytes)
    # The ceiling measured for this cell is about 2.6.
    assert crowded.best[0][1].speedup == pytest.approx(2.6, abs=0.15)


@pytest.mark.parametrize(("spec", "context", "milliseconds"), [
    (LARGE, 512, 4.77), (LARGE, 8000, 4.87), (LARGE, 32000, 5.62), (DEMO_SPEC, 8000, 0.593),
])  # fmt: skip
def test_plain_steps_of_one_row_as_measured(spec, context, milliseconds):
    """benchmarks/results/h200-peers.json; the table's overheads were fitted to these and other steps together."""
    assert plan(spec, context, 1).plain_seconds * 1e3 == pytest.approx(milliseconds, rel=0.1)


def test_memory():
    found = plan(LARGE, 8192, 64).memory
    assert (found.weights, found.cache) == (16_060_522_496, 64 * 8192 * 131072)
    room = int(141e9 * 0.9) - found.weights
    assert found.fits
    assert found.largest_batch == room // (8192 * 131072) == 103
    assert found.longest_context == room // (64 * 131072)
    assert not plan(LARGE, 8192, 104).memory.fits
    small = plan(LARGE, 8192, 1, device=replace(H200, memory=10**9)).memory
    assert (small.fits, small.largest_batch, small.longest_context) == (False, 0, 0)
    assert plan(LARGE, 8192, 1, device=DEVICES["server-ddr5"]).memory.fits is None


@pytest.mark.parametrize(
    ("spec", "context", "batch", "drafter", "words"),
    [
        (DEMO_SPEC, 8192, 64, "sparse", "44.9 times the weights"),
        (LARGE, 32768, 16, "sparse", "4.6 times the weights"),
        (LARGE, 8192, 1, "lookup", "it reads all the weights, and the cache is 0.07 times as much"),
        (DEMO_SPEC, 8192, 8, "sparse", "drafts of 3 give 1.11x"),
        (DEMO_SPEC, 8192, 4, "lookup", "by bytes; the rest is launches, which every step has"),
        (LARGE, 1024, 512, "none", "verifying 8 drafts costs 3.96"),
    ],
)
def test_advice(spec, context, batch, drafter, words):
    advice = advise(plan(spec, context, batch))
    assert advice.drafter == drafter
    assert words in advice.why


def test_the_demo_models_shape_is_known_without_its_file():
    if not is_cached():
        pytest.skip("the demo model is not in the cache folder")
    found = read_spec(str(cache_folder() / DEMO.file_name))
    assert found.norm_eps == pytest.approx(DEMO_SPEC.norm_eps)
    assert found.rope.theta == DEMO_SPEC.rope.theta
    same = {"norm_eps": 0.0, "rope": DEMO_SPEC.rope, "eos_token_ids": ()}
    assert replace(found, **same) == replace(DEMO_SPEC, **same)


def test_a_config_alone_is_enough(tmp_path):
    write_json(tmp_path / "config.json", tiny_config("qwen3"))
    assert read_spec(str(tmp_path)).qk_norm
    assert read_spec(str(tmp_path / "config.json")) == read_spec(str(tmp_path))
    with pytest.raises(ArgumentError, match=r"no such model: .*nowhere"):
        read_spec(str(tmp_path / "nowhere"))


def test_devices():
    assert find_device("RTX 4090") is DEVICES["rtx-4090"]
    for device in DEVICES.values():
        assert device.source
        # Nothing computes less than one operation or more than a thousand for every byte it reads.
        assert 1 < device.rate / device.bandwidth < 1000
    with pytest.raises(ArgumentError, match=r"unknown device 'abacus'; known: h200, .*cpu-2-cores"):
        find_device("abacus")


def test_impossible_settings_are_refused():
    with pytest.raises(ArgumentError, match="batch must be at least 1, not 0"):
        Setting(LARGE, BF16, 10, 0, H200)
    with pytest.raises(ArgumentError, match="context must be at least 1, not -3"):
        Setting(LARGE, BF16, -3, 1, H200)
    assert plan(LARGE, 1, 1, device=Device("slow", 1.0, 1.0, 0, "a test")).memory.fits is None


def test_a_config_without_a_size_is_refused_by_name(tmp_path):
    """transformers would put a size of its own there, and the plan would be of that model."""
    config = {
        name: value for name, value in tiny_config("llama").items() if name not in ("intermediate_size", "vocab_size")
    }
    write_json(tmp_path / "config.json", config)
    with pytest.raises(ModelError, match=r"config\.json: intermediate_size, vocab_size missing"):
        read_spec(str(tmp_path))
