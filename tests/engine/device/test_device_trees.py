"""Trees on the device write what the eager engine writes plainly, whoever drafts, joins, leaves or runs beside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.doubles import RandomPacer
from tests.trees import Spine, Trees

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.cache.rows import Rows
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams

ENGINES = {
    "racer": {"drafter": "racer", "pacer": "fixed", "draft_tokens": 5},
    "suffix": {"drafter": "suffix", "pacer": "fixed", "draft_tokens": 4},
    "racer+suffix": {"drafter": "racer+suffix", "pacer": "marginal", "draft_tokens": 7},
}


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("trees"))
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=2, device="cpu")


@pytest.fixture(autouse=True)
def no_page_lost(llm):
    free = llm.loaded.pool.free_pages
    yield
    assert (llm.loaded.pool.free_pages, llm.loaded.pool.promised) == (free, 0)


def with_trees(llm, drafting, pacing=None, **options):
    """On the device, with a drafter object and rows for its trees."""
    other = llm.variant(**{"drafter": "suffix", "pacer": "fixed", "draft_tokens": 8} | options)
    parts = make_parts(llm.loaded, other.options)
    most = max(parts.rows.max_draft, drafting.budget)
    rows = Rows(parts.rows.capacity, parts.rows.width + most, most)
    parts = replace(parts, rows=rows, drafter=drafting, pacer=pacing or parts.pacer)
    other._engine = device_engine(parts, other.options)
    return other


def texts(llm, prompts, params):
    """What plain decoding writes: (prompt, output) of each, as doubles want them."""
    return [(prompt, ids) for prompt, ids in zip(prompts, ids_of(llm.generate(prompts, params)), strict=True)]


def sampled(*tokens):
    return [
        SamplingParams(max_tokens=most, temperature=0.8, top_k=40, seed=seed, ignore_eos=True)
        for seed, most in enumerate(tokens)
    ]


def said(outputs):
    return [(out.token_ids, out.text, out.finish_reason, out.stop_reason) for out in outputs]


@pytest.mark.parametrize("name", ENGINES)
def test_the_text_is_plain_decodings(llm, name):
    """Three requests over two rows, greedy and sampled: the first to end leaves its row to the last."""
    first, other, third = prompts_of(llm, 30, 17, 40)
    prompts = [first[10:] + ids_of(llm.generate([first], greedy(4)))[0] + first[10:], other, third]
    params = [greedy(6), *sampled(3, 4)]
    outputs = on_device(llm, **ENGINES[name]).generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    assert outputs[0].speculation.drafted > 0
    assert all(set(output.speculation.eager_steps) == {"no CUDA device"} for output in outputs)
