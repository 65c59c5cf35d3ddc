"""A44-A48: what a rejected draft wrote is gone, and never lies outside the pages that were taken for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.cases.doubles import Fixed, drafting, with_parts
from tests.cases.mini import mini
from tests.cases.models import GREEDY, prompt, ref, texts_of
from tests.cases.verdicts import eq, ledger
from tests.model.gguf_files import write_tiny_gguf
from tests.tiny import tiny_config, write_json, write_tiny_checkpoint

from glimpse.cache.pool import CacheShape, OutOfPages, PagePool
from glimpse.cache.sequence import Sequence
from glimpse.engine.submit import make_requests
from glimpse.errors import GlimpseError, ModelError
from glimpse.llm import LLM

WINDOWS = {
    "mistral": ("mistral", {"sliding_window": 8}, "sliding window of 8"),
    "qwen2": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0},
        "sliding window of 8",
    ),
    "one layer": ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_a44_a45_sliding_windows_are_refused(tmp_path, kind):
    """No layer has a window, so no cache is a ring; a model that needs one is not run as if it did not."""
    architecture, changes, said = WINDOWS[kind]
    folder = write_tiny_checkpoint(tmp_path / "m", architecture)
    write_json(folder / "config.json", tiny_config(architecture, vocab_size=300) | changes)
    with pytest.raises(ModelError, match=f"{said}.* not supported; full attention in every layer is"):
        LLM(folder)


def test_a44_a45_sliding_windows_of_gguf_files_are_refused(tmp_path):
    path = write_tiny_gguf(
        tmp_path / "m.gguf", tiny_config(vocab_size=300), metadata={"llama.attention.sliding_window": 8}
    )
    with pytest.raises(ModelError, match="sliding window of 8 is not supported"):
        LLM(path)


UNREWINDABLE = ("MambaForCausalLM", "Mamba2ForCausalLM", "RwkvForCausalLM", "JambaForCausalLM", "Qwen3NextForCausalLM")


@pytest.mark.parametrize("architecture", UNREWINDABLE)
def test_a46_models_whose_state_cannot_be_rewound_are_refused(tmp_path, architecture):
    folder = write_tiny_checkpoint(tmp_path / "m")
    write_json(folder / "config.json", tiny_config(vocab_size=300) | {"architectures": [architecture]})
    with pytest.raises(ModelError, match=f"architecture {architecture} is not supported; supported architectures: "):
        LLM(folder)


def test_a46_layers_whose_state_cannot_be_rewound_are_refused(tmp_path):
    folder = write_tiny_checkpoint(tmp_path / "m", "qwen3")
    config = tiny_config("qwen3", vocab_size=300) | {"layer_types": ["full_attention", "linear_attention"]}
    write_json(folder / "config.json", config)
    with pytest.raises(ModelError, match="linear_attention"):
        LLM(folder)


def unverified(llm):
    """Spoils all of the cache that holds no verified keys and values: whoever reads it writes NaN."""
    pool, rows = llm.loaded.pool, llm._engine.parts.rows
    kept = torch.zeros(pool.pages * pool.page_size, dtype=torch.bool)
    for slot, sequence in enumerate(rows.sequences):
        if sequence is not None:
            kept[sequence.slots_of(torch.arange(int(rows.verified_len[slot])))] = True
    with torch.inference_mode():
        for held in (pool.keys, pool.values):
            held[:, :, ~kept] = torch.nan


@pytest.mark.parametrize("acceptance", ["coupled", "matched"])
@pytest.mark.parametrize("name", ["NOISY", "FIXED", "LOOKUP"])
def test_a46_a47_rejected_drafts_are_never_read_again(tmp_path, name, acceptance):
    """After every step the cache beyond what is verified is spoilt, and its counters are those of the text."""
    llm = mini(tmp_path, rows=3, max_context=128)
    prompts, params = [prompt(length) for length in (6, 17, 40)], replace(GREEDY, max_tokens=60)
    texts = texts_of(llm, prompts, params)
    fast = drafting(llm, name, texts, draft_tokens=4, p=0.5, acceptance=acceptance)
    engine, rows = fast._engine, fast._engine.parts.rows
    requests = [make_requests(fast.loaded, engine, ids, params)[0] for ids in prompts]
    with ledger(fast):
        for request in requests:
            engine.add(request)
        while engine.busy:
            engine.step()
            unverified(fast)
            for slot, request in engine._running.items():
                assert int(rows.committed_len[slot]) == request.length or request.finished
                assert int(rows.verified_len[slot]) == request.length - 1 or request.finished
                assert int(rows.draft_len[slot]) == 0
    eq([_Written(request.committer.token_ids) for request in requests], [text for _, text in texts])
    assert name == "LOOKUP" or sum(request.speculation.drafted - request.speculation.accepted for request in requests)


class _Written:
    def __init__(self, token_ids):
        self.token_ids = token_ids


def pool_of(pages):
    return PagePool(CacheShape(1, 1, 2), pages, 16, torch.float32)


def test_a48_pages_for_every_length_and_draft():
    """Length 15 and 20 drafts: ceil(36 / 16) = 3 pages; what a rejection leaves over comes back."""
    for length in range(1, 41):
        for draft in range(1, 21):
            need = -(-(length + draft + 1) // 16)
            pool, short = pool_of(need), pool_of(max(1, need - 1))
            sequence = Sequence(pool)
            sequence.reserve(length + draft + 1)
            assert len(sequence.pages) == need
            assert int(sequence.slots(0, length + draft + 1).max()) < need * 16
            sequence.truncate(length + 1)
            assert len(sequence.pages) == -(-(length + 1) // 16)
            sequence.release()
            assert pool.free_pages == need
            if need > 1:
                tight = Sequence(short)
                with pytest.raises(OutOfPages):
                    tight.reserve(length + draft + 1)
                assert (tight.pages, short.free_pages) == ([], need - 1)


@pytest.mark.parametrize("draft_tokens", [1, 7, 20])
def test_a48_no_step_writes_outside_its_pages(tmp_path, monkeypatch, draft_tokens):
    """Lengths around the borders of pages; every slot that is written belongs to one of the row's own pages."""
    llm = mini(tmp_path, rows=1, max_context=64)
    fast = with_parts(llm, Fixed([299] * 20), draft_tokens=draft_tokens)
    pool, rows, write = llm.loaded.pool, fast._engine.parts.rows, llm.loaded.pool.write

    def watched(layer, slots, keys, values):
        assert set((slots // 16).tolist()) <= set(rows.sequence(0).pages)
        assert len(set(slots.tolist())) == len(slots)
        write(layer, slots, keys, values)

    prompts = [prompt(length) for length in (1, 14, 15, 16, 17, 31, 32, 33, 40)]
    params = replace(GREEDY, max_tokens=24)
    texts = ref(llm, prompts, params)
    monkeypatch.setattr(pool, "write", watched)
    for ids, text in zip(prompts, texts, strict=True):
        with ledger(fast):
            out = fast.generate([ids], params)[0]
        eq([out], [text])
        assert max(out.speculation.draft_lengths) == draft_tokens


@pytest.mark.parametrize("spare", [0, 1])
def test_a48_one_page_too_few(tmp_path, spare):
    """Promised by the step, a request alone in a cache of one page too few ends with an error that says so."""
    llm = mini(tmp_path, rows=1, max_context=64)
    fast = with_parts(llm, Fixed([299] * 20), draft_tokens=20, reserve="next")
    pool, params = llm.loaded.pool, replace(GREEDY, max_tokens=20)
    need = pool.pages_for(15 + 20)
    taken = pool.allocate(pool.free_pages - need + 1 - spare, 0)
    try:
        with ledger(fast):
            if spare:
                eq(fast.generate([prompt(15)], params), ref(llm, [prompt(15)], params))
            else:
                with pytest.raises(GlimpseError, match=f"positions of cache, but only {(need - 1) * 16} are free"):
                    fast.generate([prompt(15)], params)
    finally:
        pool.release(taken)
