"""Cases of `tests/cases` that meet the device engine, whose host reads one step behind: ends and limits within a block,
seeds, mixed parameters, batches. REF is the CPU's plain decoding, in float32."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import pytest
import torch
from tests.cases.models import GREEDY, copied, narrow, prompt, ref
from tests.cases.verdicts import eq

from glimpse.llm import LLM
from glimpse.sampling import SamplingParams
from tiny import write_json, write_tiny_checkpoint

DEVICE = "cuda"
FAST = {
    "none": {"drafter": "none", "pacer": "fixed"},
    "sparse": {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 4, "budget": 0.1, "budget_floor": 40},
    "self": {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 8, "budget": 1.0},
    "entropy": {"drafter": "sparse", "pacer": "entropy", "draft_tokens": 6, "budget_floor": 40},
    "lookup": {"drafter": "lookup", "pacer": "fixed", "draft_tokens": 5},
}
IDS = prompt(30)


@pytest.fixture(autouse=True, scope="module")
def exact_products():
    """Float32 products in float32, as on the CPU."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@contextmanager
def pages(llm):
    """No page is lost in the block."""
    pool = llm.loaded.pool
    before = pool.free_pages, pool.promised
    yield
    assert (pool.free_pages, pool.promised) == before


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """make(eos) -> (plain on the CPU, plain on the GPU) over one tiny checkpoint with these end-of-text tokens."""
    folder = write_tiny_checkpoint(
        tmp_path_factory.mktemp("cases") / "tiny", hidden_size=48, intermediate_size=128, head_dim=32
    )
    config, tokens = (json.loads((folder / f"{name}.json").read_text()) for name in ("config", "tokenizer_config"))
    write_json(folder / "tokenizer_config.json", tokens | {"eos_token": None})

    def load(eos=None):
        write_json(folder / "config.json", config | {"eos_token_id": eos})
        options = {"drafter": "none", "pacer": "fixed", "dtype": "float32", "max_batch_size": 4}
        return LLM(folder, device="cpu", **options), LLM(folder, device=DEVICE, **options)

    return load


@pytest.fixture(scope="module")
def both(make):
    return make()


@pytest.fixture(params=list(FAST))
def fast(request, both):
    """A drafting engine on the GPU, whose cache must be as before in the end."""
    with pages(both[1]):
        yield both[1].variant(**FAST[request.param])


@pytest.fixture(scope="module")
def text(both):
    (tokens,) = ref(both[0], [IDS])
    assert len(set(tokens[:10])) == 10
    return tokens


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 13])
def test_a05_a29_a30_lengths_are_exact(fast, text, limit):
    out = fast.generate(IDS, replace(GREEDY, max_tokens=limit))[0]
    eq([out], [text[:limit]])
    assert out.finish_reason == "length"


def test_a14_every_mix_of_parameters(fast, both):
    grid = product((0.0, 0.1, 1.0), (1.0, 0.9), (0, 1, 50), (0.0, 0.1))
    params = [
        SamplingParams(temperature=t, top_p=p, top_k=k, min_p=m, max_tokens=20, seed=seed)
        for seed, (t, p, k, m) in enumerate(grid)
    ]
    prompts = [prompt(12, seed) for seed in range(len(params))]
    eq(fast.generate(prompts, params), ref(both[0], prompts, params))


def test_a21_a22_seeds_and_neighbours(fast, both):
    prompts = [prompt(20, name) for name in "ABCD"]
    params = [SamplingParams(max_tokens=30, temperature=0.0)]
    params += [SamplingParams(max_tokens=30, temperature=t, seed=s) for s, t in ((1, 0.1), (2, 1.0), (2, 1.0))]
    texts = ref(both[0], prompts, params)
    for _ in range(2):
        eq(fast.generate(prompts, params), texts)
    outs = fast.generate([prompts[3]] * 20, [replace(params[3], seed=seed) for seed in range(20)])
    assert len({out.token_ids for out in outs}) == 20


@pytest.mark.parametrize("name", list(FAST))
@pytest.mark.parametrize("place", [1, 2, 5, 6, 7, 9])
def test_a23_a26_an_end_in_any_slot(make, text, name, place):
    cpu, gpu = make([299, text[place - 1]])
    llm = gpu.variant(**FAST[name])
    with pages(llm):
        chunks = list(llm.stream(IDS, GREEDY))
    out = chunks[-1].output
    eq([out], [text[:place]])
    assert (out.finish_reason, out.usage.completion_tokens) == ("stop", place)
    assert sum((chunk.token_ids for chunk in chunks), ()) == out.token_ids
    assert "".join(chunk.text for chunk in chunks) == out.text
    eq(llm.generate(IDS, replace(GREEDY, ignore_eos=True)), [text])
    least = replace(GREEDY, min_tokens=10)
    eq(llm.generate(IDS, least), ref(cpu, [IDS], least))


def test_a27_a28_stop_strings(fast, both):
    written = both[0].generate(IDS, GREEDY)[0].text
    for begin in range(0, 12, 2):
        params = replace(GREEDY, stop=[written[begin : begin + 2]])
        right, out = both[0].generate(IDS, params)[0], fast.generate(IDS, params)[0]
        assert (out.text, out.token_ids, out.stop_reason) == (right.text, right.token_ids, right.stop_reason)


@pytest.mark.parametrize("count", [1, 4, 5, 16])
def test_a37_a40_more_requests_than_rows(fast, both, count):
    prompts = [copied(20 + row, row) if row % 2 else prompt(1 + 7 * row, row) for row in range(count)]
    params = [replace(GREEDY, max_tokens=25 - row) for row in range(count)]
    params[1::4] = [narrow(own) for own in params[1::4]]
    eq(fast.generate(prompts, params), ref(both[0], prompts, params))
