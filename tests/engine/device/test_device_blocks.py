"""Block drafts on the device write what the eager engine writes, of the same blocks: one small model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.adapters import write_random_adapter
from tests.drafting.block.toy_head import ToyDrafter, ToyHead

from engine.device.blocks import counts, following, knowing, told, unlike
from engine.device.engines import greedy, ids_of, on_device, prompts_of
from glimpse.attention.triton.picking import SampleConfig
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.engine.device.eligible import why_not_engine
from glimpse.engine.options import EngineOptions
from glimpse.engine.riding import BlockDraws
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from tiny import write_tiny_checkpoint

pytestmark = pytest.mark.usefixtures("no_page_lost")
SIZE = 2
HOST, AHEAD = {"block_mode": "auto"}, {"block_mode": "parallel"}
"""With `fixed`: paced by the host, and a step ahead of it."""
CUT = {"block_mode": "parallel", "pacer": "marginal"}
"""Cut on the device by the pacer's rule."""
APART = CUT | {"block_mode": "sequential"}
WAYS = (HOST, AHEAD, CUT, APART)


def small(folder, architecture="llama", context=None, **more):
    """Two small layers, two rows."""
    made = write_tiny_checkpoint(
        folder / "tiny", architecture, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=128, **more
    )
    return LLM(made, drafter="none", pacer="fixed", max_batch_size=2, device="cpu", max_context=context)


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    return small(tmp_path_factory.mktemp("blocks"))


@pytest.fixture(scope="module")
def adapter(llm, tmp_path_factory):
    return str(write_random_adapter(tmp_path_factory.mktemp("adapter") / "random.safetensors", llm, size=SIZE))


@pytest.fixture(autouse=True)
def few_processors(monkeypatch):
    """So that the interpreter has few programs to run, and ranks a small vocabulary by comparing instead of sorting."""
    counted = SampleConfig(few=512, room=512)
    monkeypatch.setattr("glimpse.attention.triton.picking.SampleConfig", lambda: counted)
    monkeypatch.setattr("glimpse.attention.triton.attention.processors", lambda device: 4)


def options(adapter, **changed):
    return {"drafter": "block", "adapter": adapter, "pacer": "fixed", "draft_tokens": SIZE} | changed


def jobs(llm):
    """Three requests over two rows: the first to end leaves its row to the last."""
    return prompts_of(llm, 7, 3, 5), [
        greedy(4),
        SamplingParams(max_tokens=6, temperature=0.8, top_k=40, seed=4, ignore_eos=True),
        SamplingParams(max_tokens=3, temperature=0.0, seed=1, ignore_eos=True),
    ]


@pytest.mark.parametrize(("mode", "ahead"), [("parallel", True), ("parallel", False), ("sequential", False)])
def test_texts_counts_and_blocks_are_the_eager_engines(llm, adapter, mode, ahead, monkeypatch):
    """Where the length is foretold and all groups ride, blocks stay on the device, and the host is a step behind."""
    monkeypatch.setattr("glimpse.pacing.fixed.FixedPacer.foretells", ahead)
    prompts, params = jobs(llm)
    plain = ids_of(llm.generate(prompts, params))
    texts = [prompt + text for prompt, text in zip(prompts, plain, strict=True)]
    knowing(llm, following(texts), monkeypatch)
    eager, device = (
        make(**options(adapter, block_mode=mode)) for make in (llm.variant, lambda **own: on_device(llm, **own))
    )
    blocks, found_blocks = told(eager), told(device)
    right, found = eager.generate(prompts, params), device.generate(prompts, params)
    assert ids_of(found) == ids_of(right) == plain
    assert counts(found) == counts(right)
    assert sum(output.speculation.accepted for output in found) > 2
    assert all(set(output.speculation.eager_steps) == {"no CUDA device"} for output in found)
    assert device._engine._host.own is ahead
    if ahead:
        assert not found_blocks, "the host is not told"
    else:
        assert blocks
        assert not unlike(found_blocks, blocks)


def blocks_of_both(llm, adapter, tokens):
    """What the drafter is told of one greedy request, on the device and by the eager engine."""
    (prompt,), params = prompts_of(llm, 5), greedy(tokens)
    eager, device = llm.variant(**options(adapter)), on_device(llm, **options(adapter))
    heard = [told(device), told(eager)]
    assert ids_of(device.generate([prompt], params)) == ids_of(eager.generate([prompt], params))
    return heard


@pytest.mark.parametrize(
    ("architecture", "more", "shape"),
    [
        ("qwen3", {}, {"first": 0, "inner": 0, "size": 3}),
        ("llama", {"hidden_size": 64, "intermediate_size": 64, "head_dim": 32}, {"size": 2}),  # narrow below the masks
        ("llama", {}, {"size": 33, "first": 1}),  # a row has bits for one group
    ],
)
def test_other_models_and_adapters_make_the_eager_engines_blocks(tmp_path, architecture, more, shape, monkeypatch):
    monkeypatch.setattr("glimpse.model.linear.can_pack", lambda dtype: False)  # weights as a GPU has them
    other = small(tmp_path, architecture, **more)
    found, right = blocks_of_both(other, str(write_random_adapter(tmp_path / "adapter", other, **shape)), 2)
    assert found
    assert not unlike(found, {text: right[text] for text in found})


@pytest.mark.parametrize("way", WAYS)
def test_stops_and_the_end_of_the_context(tmp_path, way):
    short = small(tmp_path, context=9)
    adapter = str(write_random_adapter(tmp_path / "adapter", short, size=SIZE))
    prompts = prompts_of(short, 7, 9)
    stop = short.generate(prompts[:1], greedy(2))[0].token_ids[1]
    device = on_device(short, **options(adapter, **way))
    for params in (greedy(5), greedy(5, stop_token_ids=[stop])):
        found, right = device.generate(prompts, params), short.generate(prompts, params)
        assert [(own.token_ids, own.finish_reason) for own in found] == [
            (own.token_ids, own.finish_reason) for own in right
        ]


@pytest.mark.parametrize("way", WAYS)
def test_processors_run_eagerly_beside_and_rows_go_on_where_they_were_put_back(llm, adapter, way):
    prompts, params = prompts_of(llm, 4, 3), [greedy(3, repetition_penalty=1.3), greedy(4)]
    device = on_device(llm, **options(adapter, reserve="next", **way))
    engine, made = device._engine, device._requests(prompts, params)
    for request in made:
        engine.add(request)
    engine.step()
    assert engine.preempt(made[1])
    while engine.busy:
        engine.step()
    assert [list(request.committer.token_ids) for request in made] == ids_of(llm.generate(prompts, params))
    assert set(made[0].speculation.eager_steps) == {"repetition_penalty asked for"}
    assert set(made[1].speculation.eager_steps) == {"no CUDA device"}
    assert not engine.parts.drafter._blocks


@pytest.mark.parametrize("way", WAYS)
def test_a_draft_that_breaks_its_row_is_dropped(llm, adapter, way, monkeypatch):
    """A drafted token's values are not finite: a plain step shows that the text is sound."""
    (prompt,) = prompts_of(llm, 4)
    (plain,) = ids_of(llm.generate([prompt], greedy(3)))
    spoiled = next(token for token in range(3, 300) if token not in prompt + plain)
    knowing(llm, torch.full((300,), spoiled), monkeypatch)
    weight = llm.loaded.checkpoint.decoder.embedding.weight
    kept = weight[spoiled].clone()
    with torch.inference_mode():
        weight[spoiled] = torch.nan
        (found,) = on_device(llm, **options(adapter, **way)).generate([prompt], greedy(3))
        weight[spoiled] = kept
    assert ids_of([found]) == [plain]


def test_masks_are_refused_where_bits_count(llm, adapter):
    asked = EngineOptions(drafter="block", adapter=adapter, exact="bitwise")
    with pytest.raises(ArgumentError, match="'bitwise' takes rows alone, and drafter 'block' has mask tokens"):
        device_engine(make_parts(llm.loaded, asked), asked)


def test_heads_of_other_kinds_run_eagerly(llm, adapter):
    parts = make_parts(llm.loaded, EngineOptions(drafter="block", adapter=adapter))
    head = ToyHead(llm.loaded.checkpoint.decoder)
    other = replace(parts, drafter=ToyDrafter(head, BlockDraws(parts.sampler, parts.acceptance)))
    assert why_not_engine(parts) is None
    assert why_not_engine(other) == "drafter 'toy block' has mask tokens ride in forwards"
