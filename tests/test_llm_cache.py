"""The face and the cache: pinned prompts, variants over one cache, and a cache that is full."""

from __future__ import annotations

import pytest
import torch

from glimpse.engine.forward import forward
from glimpse.engine.memory import costs_of
from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams
from small_llm import GREEDY, IDS, small


@pytest.fixture(scope="module")
def llm(tiny):
    return tiny.variant(drafter="sparse", pacer="fixed", draft_tokens=4)


@pytest.fixture(autouse=True)
def ledger(tiny):
    """Every test gives back every page."""
    yield
    assert tiny._loaded.pool.free_pages == tiny._loaded.pool.pages


@pytest.mark.parametrize(("drafter", "scores"), [("sparse", torch.bfloat16), ("slowfast", torch.float32)])
def test_memory_is_planned_for_what_the_drafter_keeps_of_positions(tiny_folder, monkeypatch, drafter, scores):
    asked = []

    def costs(spec, dtype, device, scores):
        asked.append(scores)
        return costs_of(spec, dtype, device, scores)

    monkeypatch.setattr("glimpse.engine.loaded.costs_of", costs)
    LLM(tiny_folder, drafter=drafter, max_batch_size=1, max_context=128, device="cpu")
    assert asked == [scores, scores], "before the weights are read, and for the cache"


def test_compare_of_a_whole_context_in_a_cache_of_one(tiny_folder):
    """The pinned prompt is part of the request's own pages, so there is room."""
    result = small(tiny_folder, drafter="sparse").compare(IDS, SamplingParams(temperature=0.0))
    assert result.identical
    assert len(result.baseline.token_ids) == 28


def test_no_room_beside_a_pinned_prompt_is_an_error(tiny_folder):
    llm = small(tiny_folder)
    with llm.pinned(IDS):
        with pytest.raises(GlimpseError, match="cache"):
            llm.generate([9] * 100, GREEDY)
        assert len(llm.generate(IDS, GREEDY)[0].token_ids) == 12
    assert len(llm.generate([9] * 100, GREEDY)[0].token_ids) == 12


def test_variants_share_the_cache_without_overfilling_it(tiny_folder):
    """Two engines over a cache of one context: the second waits or says that there is no room; nothing breaks."""
    llm = small(tiny_folder)
    stream = llm.stream(IDS, GREEDY)
    first = next(stream)
    with pytest.raises(GlimpseError, match="cache"):
        llm.variant(drafter="none").generate(IDS[::-1], GREEDY)
    tokens = [*first.token_ids, *(token for chunk in stream for token in chunk.token_ids)]
    assert tuple(tokens) == llm.generate(IDS, GREEDY)[0].token_ids
    assert llm._loaded.pool.free_pages == llm._loaded.pool.pages


def test_a_pin_dropped_while_a_row_reads_it(tiny_folder):
    """The row goes on holding the shared pages: they are not free for anyone else."""
    llm = small(tiny_folder)
    right = llm.generate(IDS, GREEDY)[0].token_ids
    with llm.pinned(IDS):
        stream = llm.stream(IDS, GREEDY)
        tokens = list(next(stream).token_ids)
    with pytest.raises(GlimpseError, match="cache"):
        llm.variant(drafter="none").generate([9] * 30, GREEDY)
    for chunk in stream:
        tokens += chunk.token_ids
    assert tuple(tokens) == right


@pytest.mark.parametrize("reuse", [True, False])
def test_an_interrupted_pin_keeps_nothing(tiny_folder, monkeypatch, reuse):
    """What was half read must not be taken for a prefix."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("glimpse.engine.phases.CHUNK", 32)
    llm = small(tiny_folder).variant(prefix_reuse=reuse)
    right = llm.variant(prefix_reuse=False).generate(IDS, GREEDY)[0].token_ids
    llm._progress = interrupt
    with pytest.raises(KeyboardInterrupt), llm.pinned(IDS):
        pass
    llm._progress = lambda *_: None
    assert llm._loaded.pool.free_pages == llm._loaded.pool.pages
    assert llm.variant().generate(IDS, GREEDY)[0].token_ids == right


def test_pins_may_be_nested(llm, tiny):
    pool = tiny._loaded.pool
    with llm.pinned(IDS):
        held = pool.pages - pool.free_pages
        with llm.pinned(IDS), llm.pinned([5] * 512):
            assert pool.pages - pool.free_pages >= held
        assert pool.pages - pool.free_pages == held > 0


def test_a_pinned_prompt_is_read_once(tiny_folder, monkeypatch):
    """Of its 100 tokens a later request reads the last 16 to 31 again."""
    fed = []
    monkeypatch.setattr(
        "glimpse.engine.engine.forward",
        lambda decoder, pool, rows, specs: (
            fed.append(sum(spec.count for spec in specs)) or forward(decoder, pool, rows, specs)
        ),
    )
    llm = small(tiny_folder, drafter="none")
    right = llm.generate(IDS, GREEDY)[0].token_ids
    with llm.pinned(IDS):
        fed.clear()
        assert llm.generate(IDS, GREEDY)[0].token_ids == right
    assert fed[0] == 20
    assert fed[1:] == [1] * 11


def test_dynamic_rope_and_a_pinned_prompt(altered):
    """Keys of a longer prompt have another base, so what a shorter one left must not be used for it."""
    folder = altered(max_position_embeddings=32, rope_scaling={"rope_type": "dynamic", "factor": 4.0})
    llm = LLM(folder, drafter="none", pacer="fixed")
    right = llm.generate([IDS[:90]], GREEDY)[0].token_ids
    with llm.pinned(IDS[:48]):
        assert llm.generate([IDS[:90]], GREEDY)[0].token_ids == right
