"""A50, A51: every ratio of query to KV heads, and a cache that holds KV heads once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.cases.doubles import drafting
from tests.cases.mini import mini
from tests.cases.models import GREEDY, prompt, texts_of
from tests.cases.verdicts import eq
from tests.model.peer import peer_logits, transformers_model
from tests.tiny import tiny_config

from glimpse.bench.held import held
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.errors import ModelError
from glimpse.model.hf_config import spec_from_config

RATIOS = ((9, 3), (6, 2), (7, 1), (5, 5), (14, 2), (15, 5))


def shape_of(heads, kv_heads):
    return {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "hidden_size": 8 * heads}


@pytest.mark.parametrize(("heads", "kv_heads"), RATIOS)
def test_a50_decode_equals_prefill_and_the_peer(tmp_path, heads, kv_heads):
    shape = shape_of(heads, kv_heads)
    llm, ids = mini(tmp_path, **shape), prompt(40)
    with held(llm, ids) as text:
        whole = text.forward(0, 40).logits[0]
        single = torch.cat([text.forward(at, 1).logits[0] for at in range(40)])
    torch.testing.assert_close(single, whole, rtol=0, atol=1e-4)
    theirs = transformers_model(tiny_config(vocab_size=300, bos_token_id=1, **shape))
    torch.testing.assert_close(whole, peer_logits(theirs, ids), rtol=0, atol=2e-4)


@pytest.mark.parametrize(("heads", "kv_heads"), RATIOS)
@pytest.mark.parametrize("drafter", ["NOISY", "SELF"])
def test_a50_every_ratio_speculates(tmp_path, heads, kv_heads, drafter):
    llm = mini(tmp_path, **shape_of(heads, kv_heads))
    ids, params = prompt(60), replace(GREEDY, max_tokens=20)
    texts = texts_of(llm, [ids], params)
    out = drafting(llm, drafter, texts).generate([ids], params)[0]
    eq([out], [texts[0][1]])
    assert out.speculation.acceptance_rate == 1 if drafter == "SELF" else out.speculation.accepted


def test_a50_uneven_ratios_are_refused_at_the_start(tmp_path):
    with pytest.raises(ModelError, match="6 query heads cannot share 4 KV heads evenly"):
        mini(tmp_path, num_key_value_heads=4)


def test_a51_bytes_of_a_token_of_smollm2():
    """30 layers, keys and values, 3 heads of 64, two bytes: 23,040, of the reckoning and of the tensors."""
    spec = spec_from_config(
        tiny_config(num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, head_dim=64, hidden_size=576)
    )
    assert spec.kv_bytes_per_token(torch.bfloat16) == 23_040
    shape = CacheShape(spec.layers, spec.kv_heads, spec.head_dim)
    pool = PagePool(shape, 2, 16, torch.bfloat16)
    assert (pool.keys.nbytes + pool.values.nbytes) / 32 == shape.bytes_per_token(torch.bfloat16) == 23_040


def test_a51_the_cache_of_an_llm_is_not_expanded(mtiny):
    pool, spec = mtiny.loaded.pool, mtiny.spec
    held_bytes = (pool.keys.nbytes + pool.values.nbytes) / (pool.pages * pool.page_size)
    assert held_bytes == spec.kv_bytes_per_token(torch.float32) == 2 * 2 * 2 * 8 * 4
    assert pool.keys.shape[1] == spec.kv_heads == spec.heads // 3


def test_a51_smollm2_itself(smol):
    assert smol.spec.kv_bytes_per_token(torch.bfloat16) == 23_040
