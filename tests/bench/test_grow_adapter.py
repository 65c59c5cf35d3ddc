"""An adapter grown along with its target says on the twin what it says on the source."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.adapters import random_tensors, write_random_adapter
from tests.tiny import write_tiny_checkpoint

from glimpse.attention.plan import MaskGroups, RowSpec
from glimpse.bench.grow import grow_checkpoint, twin_fingerprint
from glimpse.bench.grow_adapter import grow_adapter, grown_adapter_file
from glimpse.bench.grow_plan import GrownShape
from glimpse.bench.grow_source import open_source
from glimpse.bench.grow_weights import GrownWeights
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.rows import Rows
from glimpse.cache.sequence import Sequence
from glimpse.drafting.block.adapter import Adapter, BlockConfig, read_adapter
from glimpse.drafting.block.contract import Seen
from glimpse.drafting.block.flex import FlexHead
from glimpse.engine.forward import forward
from glimpse.engine.loaded import load
from glimpse.engine.options import EngineOptions
from glimpse.errors import ModelError
from glimpse.llm import LLM
from glimpse.model import load_checkpoint
from glimpse.sampling import SamplingParams

DOUBLED = GrownShape(hidden_size=96, heads=12, kv_heads=4, head_dim=16, intermediate_size=192, layers=5)
ODD = GrownShape(hidden_size=75, heads=15, kv_heads=3, head_dim=12, intermediate_size=131, layers=4, vocab_size=403)
SPLIT = GrownShape(heads=16, kv_heads=8, head_dim=16, hidden_size=128)
TOKENS = [40 + (7 * place) % 60 for place in range(16)]
BEHIND = (2, 9, 15)


@torch.inference_mode()
def said(checkpoint, adapter):
    """[branches, size, vocab]: the logits of groups behind some tokens, through an engine's forward."""
    spec = checkpoint.spec
    pool = PagePool(CacheShape(spec.layers, spec.kv_heads, spec.head_dim), 8, 16, torch.float32)
    head = FlexHead(checkpoint.decoder, adapter)
    rows, sequence = Rows(1, 40, 4), Sequence(pool, expected=20)
    rows.open(0, TOKENS, sequence, 30)
    sequence.reserve(len(TOKENS))
    asked = RowSpec(0, sequence, 0, len(TOKENS), masks=MaskGroups(head.path, head.size, BEHIND), hidden=True)
    result = forward(checkpoint.decoder, pool, rows, [asked])
    hidden, groups = result.hidden[0], result.groups[0]
    assert hidden is not None
    seen = [
        Seen(0, 50 + place, torch.tensor(TOKENS), hidden, group)
        for place, group in zip(BEHIND, groups, strict=True)
    ]  # fmt: skip
    return head.propose(seen)


@pytest.mark.parametrize("shape", [DOUBLED, ODD, SPLIT], ids=["doubled", "odd", "split"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_the_twins_masks_say_what_the_sources_do(tmp_path, architecture, shape):
    folder = write_tiny_checkpoint(tmp_path / "m", architecture, num_hidden_layers=3)
    source, twin = load_checkpoint(folder), grow_checkpoint(folder, shape)
    config = BlockConfig("m", source.fingerprint, 3, 1, 4, 8)
    adapter = Adapter(config, random_tensors(source.spec, config))
    opened = open_source(folder)
    weights = GrownWeights(opened.spec, opened.weights, shape)
    grown = grow_adapter(adapter, weights, twin.fingerprint, "m, grown")
    ours, theirs = said(twin, grown)[..., :300], said(source, adapter)
    assert (ours - theirs).abs().max() < 5e-5 * theirs.abs().max()
    plain = {name: tensor * (name == "mask") for name, tensor in adapter.tensors.items()}
    assert (said(source, replace(adapter, tensors=plain)) - theirs).abs().max() > 0.1 * theirs.abs().max()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("grown") / "tiny")
    loaded = [load(checkpoint, None, 2) for checkpoint in (load_checkpoint(folder), grow_checkpoint(folder, DOUBLED))]
    plain = EngineOptions(drafter="none", pacer="fixed")
    return folder, *(LLM.over(one, plain) for one in loaded)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_twin_drafts_and_accepts_what_the_source_does(models, tmp_path, temperature):
    folder, source, twin = models
    adapter = write_random_adapter(tmp_path / "a", source, inner=0 if temperature else 8)
    grown = grown_adapter_file(adapter, open_source(folder), DOUBLED, tmp_path / "grown")
    few = [token for token in range(300) if token not in range(40, 45)]
    params = SamplingParams(max_tokens=60, temperature=temperature, seed=4, suppress_tokens=few)
    found = [
        llm.variant(drafter="block", adapter=str(file), pacer="fixed", draft_tokens=4, block_mode="parallel")
        .generate([40, 41, 44, 42], params)[0]
        for llm, file in ((source, adapter), (twin, grown))
    ]  # fmt: skip
    assert found[0].token_ids == found[1].token_ids
    assert found[0].speculation.accepted == found[1].speculation.accepted > 0


def test_each_takes_its_own_adapter_only(models, tmp_path):
    folder, source, twin = models
    adapter = write_random_adapter(tmp_path / "a", source)
    grown = grown_adapter_file(adapter, open_source(folder), DOUBLED, tmp_path / "grown")
    assert twin.loaded.checkpoint.fingerprint == twin_fingerprint(open_source(folder).fingerprint(), twin.spec)
    with pytest.raises(ModelError, match=r"made for tiny \("):
        read_adapter(adapter, twin.spec, twin.loaded.checkpoint.fingerprint)
    with pytest.raises(ModelError, match=r"made for tiny, grown \("):
        read_adapter(grown, source.spec, source.loaded.checkpoint.fingerprint)
    with pytest.raises(ModelError, match=r"made for tiny, grown \("):
        grown_adapter_file(grown, open_source(folder), DOUBLED, tmp_path / "twice")


def test_twins_of_other_sizes_or_seeds_are_other_targets(models):
    _, source, twin = models
    prints = {twin_fingerprint("ab", source.spec), twin_fingerprint("ab", twin.spec), twin_fingerprint("cd", twin.spec),
              twin_fingerprint("ab", twin.spec, seed=1)}  # fmt: skip
    assert len(prints) == 4
