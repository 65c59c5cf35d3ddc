"""The device engine on a GPU, as CUDA graphs: float32 texts equal the CPU's, whatever is drafted and whoever joins."""

from __future__ import annotations

import pytest
import torch

from glimpse.engine.device.graphs import Graphs
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from tiny import write_tiny_checkpoint

TOKENS = 24
SPARSE = {"drafter": "sparse", "budget": 0.1, "budget_floor": 40}
ENGINES = {
    "none": {"drafter": "none", "pacer": "fixed"},
    "sparse": SPARSE | {"pacer": "fixed", "draft_tokens": 3},
    "sparse-entropy": SPARSE | {"pacer": "entropy", "draft_tokens": 6},
    "lookup": {"drafter": "lookup", "pacer": "fixed", "draft_tokens": 5},
}


@pytest.fixture(autouse=True, scope="module")
def exact_products():
    """Float32 products in float32, as on the CPU."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.fixture(scope="module", params=[192, 48], ids=["narrow", "plain products"])
def llms(request, tmp_path_factory):
    """(the CPU's, the GPU's) over one tiny checkpoint."""
    folder = write_tiny_checkpoint(
        tmp_path_factory.mktemp("device") / "tiny", hidden_size=request.param, intermediate_size=128, head_dim=32
    )
    options = {"drafter": "none", "pacer": "fixed", "dtype": "float32", "max_batch_size": 4}
    return LLM(folder, device="cpu", **options), LLM(folder, device="cuda", **options)


@pytest.fixture
def pages(llms):
    """No page is lost."""
    pool = llms[1].loaded.pool
    free = pool.free_pages
    yield
    assert (pool.free_pages, pool.promised) == (free, 0)


def prompts_of(llm, *lengths):
    ids = llm.tokenizer.encode("hello world, this is a test of the thing. " * 9)
    return [ids[:length] for length in lengths]


def params_of(temperature, *tokens):
    return [
        SamplingParams(max_tokens=most, temperature=temperature, top_k=20, top_p=0.95, seed=seed, ignore_eos=True)
        for seed, most in enumerate(tokens)
    ]


def ids_of(outputs):
    return [list(output.token_ids) for output in outputs]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("name", ENGINES)
def test_the_text_is_the_cpus(llms, pages, name, temperature):
    """Six requests of different lengths over four rows: rows join, leave and move."""
    cpu, gpu = llms
    prompts = prompts_of(cpu, 40, 47, 100, 17, 80, 33)
    params = params_of(temperature, TOKENS, 5, 40, 12, TOKENS, 9)
    device = gpu.variant(**ENGINES[name])
    found = device.generate(prompts, params)
    assert ids_of(found) == ids_of(cpu.generate(prompts, params))
    assert all(output.speculation.graph_steps for output in found)
    assert not any(output.speculation.eager_steps for output in found)
    assert found[0].settings["graphs"] > 0
    assert found[0].settings["graph_bytes"] >= 0
    assert all((output.speculation.waiting_steps > 0) == (name == "lookup") for output in found)


def test_eager_requests_run_beside(llms, pages):
    cpu, gpu = llms
    prompts = prompts_of(cpu, 40, 47)
    params = [
        SamplingParams(max_tokens=9, temperature=0.0, ignore_eos=True, repetition_penalty=1.3),
        SamplingParams(max_tokens=9, temperature=0.0, ignore_eos=True),
    ]
    device = gpu.variant(**ENGINES["sparse"])
    found = device.generate(prompts, params)
    assert ids_of(found) == ids_of(cpu.generate(prompts, params))
    assert set(found[0].speculation.eager_steps) == {"repetition_penalty asked for"}
    assert found[1].speculation.graph_steps > 0


def test_compare_and_pinned_prompts(llms, pages):
    _, gpu = llms
    (prompt,) = prompts_of(gpu, 100)
    found = gpu.variant(**ENGINES["sparse"]).compare(prompt, params_of(0.8, TOKENS)[0])
    assert found.identical
    assert found.speculative.speculation.graph_steps > 0
    assert found.speculative.speculation.drafted > 0


def test_a_closed_stream_frees_its_row(llms, pages):
    cpu, gpu = llms
    device = gpu.variant(**ENGINES["sparse"])
    chunks = device.stream(prompts_of(cpu, 40)[0], params_of(0.0, 100)[0])
    next(chunks)
    chunks.close()
    assert not device._engine.busy
    prompts, params = prompts_of(cpu, 47), params_of(0.0, 9)
    assert ids_of(device.generate(prompts, params)) == ids_of(cpu.generate(prompts, params))


def test_few_graphs_are_enough(llms, pages):
    """Drafts and verifications take turns at the one graph that there may be: each is dropped and captured anew.

    Two may be enough for all: they cover every number of rows, and get no company where captures (that compile) have
    used up what they may take.
    """
    cpu, gpu = llms
    prompts, params = prompts_of(cpu, 40, 47, 100, 17), params_of(0.0, 9, 6, 5, 4)
    device = gpu.variant(**ENGINES["sparse"])
    device._engine._launcher.graphs = Graphs(torch.device("cuda"), device._engine._core.quiet, most=1)
    found = device.generate(prompts, params)
    assert ids_of(found) == ids_of(cpu.generate(prompts, params))
    assert found[0].settings["graphs"] <= 1
    assert found[0].settings["graphs_dropped"] > 2


class Nothing:
    """State that a warm-up leaves alone anyway."""

    def wake(self):
        pass


def test_what_cannot_be_captured_runs_all_the_same():
    """A function that asks the device something waits for it: no graph can."""
    graphs, total = Graphs(torch.device("cuda"), Nothing), torch.zeros((), device="cuda")
    seen = []
    for _ in range(2):
        ran = graphs.run(("asks",), lambda: seen.append(total.add_(1).item()))
        assert not ran.graph
        assert "could not be captured" in ran.reason
    assert graphs.run(("adds",), lambda: total.add_(1)).graph
    assert seen[-1] == seen[-2] + 1
    assert len(graphs) == 1


def test_ends_of_prompts_are_read_together_as_a_graph(llms, pages):
    """Of three requests with a kept prompt the tail is left, of a fourth all: one forward of at most 128 tokens."""
    cpu, gpu = llms
    kept, short = prompts_of(cpu, 90, 30)
    prompts, params = [kept, kept, short, kept], params_of(0.8, TOKENS, TOKENS, TOKENS, TOKENS)
    device, right = gpu.variant(**ENGINES["sparse"]), ids_of(cpu.generate([kept, kept, short, kept], params))
    with device.pinned(kept):
        assert ids_of(device.generate(prompts, params)) == right
        assert ids_of(device.generate(prompts, params)) == right
    assert ("tails", (128,)) in device._engine._launcher.graphs._held
