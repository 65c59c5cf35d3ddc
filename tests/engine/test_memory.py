"""What fits a device, by made-up sizes: nothing is allocated."""

import os
from dataclasses import replace

import pytest
import torch

from glimpse.engine.memory import PAGE_SIZE, Costs, Demand, Memory, costs_of, memory_of, within_memory
from glimpse.errors import GlimpseError
from glimpse.model.hf_config import spec_from_config
from tiny import tiny_config

GIB = 2**30
GPU = torch.device("cuda", 0)
COSTS = Costs(weights=1000, workspace=100, position=10, reading=1, row=50, row_position=2)


def demand(usable: int, context: int = 32, slots: int = 4) -> Demand:
    return Demand(COSTS, Memory(f"a GPU has {usable} bytes free", usable), context, slots)


@pytest.mark.parametrize("slots", [1, 4, 9])
@pytest.mark.parametrize("context", [16, 40])
def test_one_byte_less_than_is_needed_is_refused(context, slots):
    """Weights, workspace, reading, the rows, and the pages of one request."""
    whole = -(-context // PAGE_SIZE) * PAGE_SIZE
    needed = 1000 + 100 + context + slots * (50 + 2 * context) + 10 * whole
    assert demand(needed, context, slots).pages == whole // PAGE_SIZE
    with pytest.raises(GlimpseError, match=f"max_context {context} with max_batch_size {slots} needs"):
        demand(needed - 1, context, slots).check()


def test_the_cache_takes_what_is_left_up_to_all_rows():
    needed = 1000 + 100 + 32 + 4 * (50 + 64)
    assert [demand(needed + 160 * pages).pages for pages in (2, 5, 8, 9, 100)] == [2, 5, 8, 8, 8]


@pytest.mark.parametrize("usable", [2000, 3000, 5000, 20_000])
def test_what_is_said_to_fit_fits_and_no_more(usable):
    asked = demand(usable, context=4096, slots=60)
    most = demand(usable, 48, 60).most_slots
    demand(usable, 48, most).check()
    with pytest.raises(GlimpseError):
        demand(usable, 48, most + 1).check()
    few = replace(asked, slots=2)
    replace(few, context=few.most_context).check()
    with pytest.raises(GlimpseError):
        replace(few, context=few.most_context + PAGE_SIZE).check()


def refusal(demand: Demand) -> str:
    with pytest.raises(GlimpseError) as caught:
        demand.check()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_message_names_both_ways_out():
    said = refusal(demand(20_000, context=512, slots=100))
    assert "20000 bytes free, of which 0.0 GiB may be used" in said
    assert said.endswith(
        "what fits is max_batch_size at most 12 at this context or max_context at most 64 with this batch"
    )


def test_a_batch_too_large_for_any_context_leaves_one_row():
    assert refusal(demand(5000, context=2048, slots=500)).endswith("max_batch_size 1 with max_context at most 288")


def test_weights_that_do_not_fit_alone():
    assert "the weights (0.0 GiB) and 0.0 GiB of working memory do not fit" in refusal(demand(1100))


def test_sizes_of_an_8b_model_on_a_gpu():
    sizes = {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
    }  # fmt: skip
    costs = costs_of(spec_from_config(tiny_config(**sizes)), torch.bfloat16, GPU, torch.bfloat16)
    assert costs.weights == 2 * 8_030_261_248
    assert costs.position == 128 * 1024
    roomy, small = (Memory("a GPU has some", int(size * 0.9 * GIB)) for size in (139, 12))
    assert Demand(costs, roomy, 32768, 16).pages * PAGE_SIZE == 16 * 32768
    assert Demand(costs, roomy, 131072, 8).pages * PAGE_SIZE > 6 * 131072
    assert "the weights (15.0 GiB)" in refusal(Demand(costs, small, 8192, 1))


def test_a_cpu_gives_the_cache_half_of_the_machine_at_most(monkeypatch):
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 10, "SC_PHYS_PAGES": 1000}.get)
    usable = [memory_of(torch.device("cpu"), weights, loaded=True).usable for weights in (0, 1000, 5000)]
    assert usable == [5000, 6000, 9000]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20.00 GiB"),
        RuntimeError("CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
    ],
)
def test_running_out_of_memory_is_one_line_and_holds_nothing(monkeypatch, error):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (GIB, 4 * GIB))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA X")
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    def action() -> None:
        raise error

    with pytest.raises(GlimpseError) as caught:
        within_memory(action, GPU, "lower max_context")
    assert str(caught.value) == "out of memory (NVIDIA X (cuda:0) has 1.0 GiB free): lower max_context"
    assert caught.value.__context__ is None


def test_running_out_on_a_cpu():
    with pytest.raises(GlimpseError, match=r"out of memory \(this machine has .* GiB\): less"):
        within_memory(lambda: torch.empty(1 << 60), torch.device("cpu"), "less")


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError):
        within_memory(lambda: 1 // 0, GPU, "")
    with pytest.raises(RuntimeError, match="shapes"):
        within_memory(lambda: torch.ones(2, 3) @ torch.ones(2, 3), GPU, "")
    assert within_memory(lambda: 5, GPU, "") == 5
