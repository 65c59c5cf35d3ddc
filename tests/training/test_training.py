"""Training at toy size: the same arithmetic as the engine's, a falling loss, and bit-exact resumption."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
import torch
from tests.tiny import write_tiny_checkpoint

from glimpse.attention.plan import MaskGroups, RowSpec
from glimpse.cache.rows import Rows
from glimpse.cache.sequence import Sequence
from glimpse.drafting.block.adapter import Adapter, BlockConfig, read_adapter
from glimpse.drafting.block.contract import Seen
from glimpse.drafting.block.flex import FlexHead
from glimpse.engine.forward import forward
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.model import load_checkpoint
from glimpse.training.frozen import read, trainable
from glimpse.training.loop import HELD, Trainer
from glimpse.training.masks import branch_points, fresh_tensors, judge
from glimpse.training.recipe import Recipe
from glimpse.training.texts import read_corpus

RECIPE = Recipe(size=3, layers=2, rank=4, inner=8, steps=6, length=24, sequences=2, branches=4, rate=3e-3, seed=5)


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def checkpoint(request, tmp_path_factory):
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("model") / request.param, request.param, num_hidden_layers=3)
    return load_checkpoint(folder)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, checkpoint):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "a.txt").write_text("the rain in the north and the stones on the shore " * 20)
    np.save(folder / "own.npy", np.random.default_rng(0).integers(3, 300, (4, 50)))
    return read_corpus(folder, checkpoint.tokenizer, RECIPE.length, checkpoint.spec.vocab_size)


def random_adapter(checkpoint) -> tuple[BlockConfig, dict[str, torch.Tensor]]:
    first = RECIPE.first_of(checkpoint.spec.layers)
    config = BlockConfig("tiny", checkpoint.fingerprint, RECIPE.size, first, RECIPE.rank, RECIPE.inner)
    tensors = fresh_tensors(checkpoint.decoder, config, torch.randn(checkpoint.spec.hidden_size), 0)
    return config, {name: tensor + 0.2 * torch.randn(tensor.shape) for name, tensor in tensors.items()}


def test_what_is_trained_is_what_the_engine_runs(checkpoint, tiny):
    """The loss of every mask, from whole sequences and from the engine's cache."""
    torch.manual_seed(0)
    config, tensors = random_adapter(checkpoint)
    tokens = torch.randint(3, 300, (1, 20))
    branches = torch.tensor([[4, 11, 15]])
    decoder = trainable(checkpoint.decoder, config.first)
    reading = read(checkpoint.decoder, tokens, config.first)
    found = judge(decoder, config, tensors, reading, tokens, branches, 0.0).loss[0]

    from glimpse.cache.pool import CacheShape, PagePool

    spec = checkpoint.spec
    pool = PagePool(CacheShape(spec.layers, spec.kv_heads, spec.head_dim), 8, 16, torch.float32)
    head = FlexHead(checkpoint.decoder, Adapter(config, tensors))
    rows, sequence = Rows(1, 40, 4), Sequence(pool, expected=20)
    rows.open(0, tokens[0].tolist(), sequence, 30)
    sequence.reserve(20)
    masks = MaskGroups(head.path, config.size, tuple(branches[0].tolist()))
    with torch.inference_mode():
        groups = forward(checkpoint.decoder, pool, rows, [RowSpec(0, sequence, 0, 20, masks=masks)]).groups[0]
        seen = [
            Seen(0, int(tokens[0, branch + 1]), tokens[0, : branch + 1], reading.hidden[0, : branch + 1], group)
            for branch, group in zip(branches[0].tolist(), groups, strict=True)
        ]
        logp = torch.log_softmax(head.propose(seen), -1)
    for place, branch in enumerate(branches[0].tolist()):
        answers = tokens[0, branch + 2 : branch + 2 + config.size]
        right = -logp[place].gather(1, answers[:, None]).squeeze(1)
        torch.testing.assert_close(found[place], right, rtol=1e-3, atol=1e-4)


def test_the_frozen_part_reads_as_the_target_does(checkpoint):
    """Its hidden states are the decoder's own, and no gradient reaches them."""
    tokens = torch.randint(3, 300, (2, 12))
    reading = read(checkpoint.decoder, tokens, 1)
    alone = read(checkpoint.decoder, tokens[1:], 1)
    torch.testing.assert_close(reading.hidden[1:], alone.hidden, rtol=1e-4, atol=1e-5)
    assert not reading.hidden.requires_grad
    assert len(reading.keys) == checkpoint.spec.layers - 1


def test_fresh_masks_project_as_the_target(checkpoint):
    config, _ = random_adapter(checkpoint)
    tensors = fresh_tensors(checkpoint.decoder, config, torch.zeros(checkpoint.spec.hidden_size), 0)
    x = torch.randn(4, checkpoint.spec.hidden_size)
    head = FlexHead(checkpoint.decoder, Adapter(config, tensors))
    for index, layer in enumerate(head.path.layers):
        assert torch.equal(layer.qkv(x), checkpoint.decoder.layers[config.first + index].qkv(x))


def test_branches_leave_room_for_a_whole_block():
    recipe = replace(RECIPE, branches=1000)
    points = branch_points(3, recipe, torch.Generator().manual_seed(0))
    assert points.min() == 0
    assert points.max() + 1 + recipe.size == recipe.length - 1


def trained(checkpoint, corpus, out, recipe=RECIPE, **limits):
    points = []
    trainer = Trainer(checkpoint, corpus, recipe, out)
    done = trainer.run(points.append, every=2, **limits)
    return done, points


def test_an_interrupted_training_goes_on_bit_for_bit(checkpoint, corpus, tmp_path):
    assert trained(checkpoint, corpus, tmp_path / "whole")[0]
    parts = [trained(checkpoint, corpus, tmp_path / "parts", seconds=0.0) for _ in range(RECIPE.steps)]
    assert [done for done, _ in parts] == [False] * (RECIPE.steps - 1) + [True]
    for suffix in ("", ".state"):
        whole, part = tmp_path / f"whole{suffix}", tmp_path / f"parts{suffix}"
        assert whole.read_bytes() == part.read_bytes()
    log = [json.loads(line) for line in (tmp_path / "parts.log").read_text().splitlines()]
    assert [point["step"] for point in log] == list(range(1, RECIPE.steps + 1))


def test_the_loss_falls_and_blocks_come_true(checkpoint, corpus, tmp_path):
    recipe = replace(RECIPE, steps=120, rate=1e-2, sequences=4, branches=8)
    _, points = trained(checkpoint, corpus, tmp_path / "a", recipe)
    assert points[-1].loss < 0.6 * points[0].loss
    assert points[-1].accepted > points[0].accepted
    adapter = read_adapter(tmp_path / "a", checkpoint.spec, checkpoint.fingerprint)
    assert adapter.config.recipe["steps"] == 120


def test_texts_are_counted_apart(checkpoint, tmp_path):
    """One text is all the same token, which is learned at once; the other is noise."""
    folder, draw = tmp_path / "texts", np.random.default_rng(0)
    folder.mkdir()
    np.save(folder / "easy.npy", np.full(20 * RECIPE.length, 7))
    np.save(folder / "hard.npy", draw.integers(3, 300, 12 * RECIPE.length))
    corpus = read_corpus(folder, checkpoint.tokenizer, RECIPE.length, checkpoint.spec.vocab_size)
    _, points = trained(checkpoint, corpus, tmp_path / "a", replace(RECIPE, steps=120, rate=1e-2, distil=0.0))
    apart, looked_at = points[-1].accepted_by_text, [name for name, _ in corpus.looked_at(HELD)]
    assert apart["easy.npy"] > apart["hard.npy"] + 0.5
    assert fmean(apart[name] for name in looked_at) == pytest.approx(points[-1].accepted, abs=1e-3)


def test_confidences_are_compared_with_what_came(checkpoint, corpus, tmp_path):
    trainer = Trainer(checkpoint, corpus, replace(RECIPE, steps=1), tmp_path / "a")
    found = trainer.reliability()
    right = torch.cat([own.right for own in trainer._held_out().values()])
    assert sum(count for _, _, count in found) == right.numel()
    assert sum(share * count for _, share, count in found) == pytest.approx(float(right.sum()))
    assert all(place / 10 <= said <= (place + 1) / 10 for said, _, _ in found for place in [int(10 * said)])


@pytest.mark.parametrize("changed", [{"layers": 9}, {"inner": 0}, {"distil": 0.0}, {"distil": 1.0}])
def test_the_ends_of_a_recipe(checkpoint, corpus, tmp_path, changed):
    """All layers, no calibrator, one half of the loss: each is trained, written and read."""
    recipe = replace(RECIPE, steps=2, **changed)
    done, points = trained(checkpoint, corpus, tmp_path / "a", recipe)
    adapter = read_adapter(tmp_path / "a", checkpoint.spec, checkpoint.fingerprint)
    assert done
    assert points[-1].loss > 0
    assert adapter.config.first == recipe.first_of(checkpoint.spec.layers)
    assert adapter.tensors["calibrator.in"].shape == (recipe.inner, 2 * checkpoint.spec.hidden_size)


def test_another_recipe_does_not_go_on(checkpoint, corpus, tmp_path):
    trained(checkpoint, corpus, tmp_path / "a", seconds=0.0)
    with pytest.raises(ArgumentError, match=r"text or recipe \(rank 4, now 2\)"):
        Trainer(checkpoint, corpus, replace(RECIPE, rank=2), tmp_path / "a")


def test_a_loss_that_is_no_number_is_told(checkpoint, corpus, tmp_path):
    trainer = Trainer(checkpoint, corpus, RECIPE, tmp_path / "a")
    trainer.state.tensors["mask"].data.fill_(torch.nan)
    with pytest.raises(GlimpseError, match="step 0: the loss is nan"):
        trainer.run(lambda point: None, every=1)
    assert not (tmp_path / "a").exists()


def test_some_sequences_are_held_out(corpus):
    assert len(corpus.held) >= 1
    held = {tuple(row) for row in corpus.held.tolist()}
    assert corpus.train.shape[1] == RECIPE.length
    assert not held & {tuple(row) for row in corpus.train[-4:].tolist()}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "fewer than two sequences of 24 tokens"),
        ({"a.txt": b"short"}, "fewer than two sequences"),
        ({"image.png": bytes(range(128, 256)) * 40}, "fewer than two sequences"),
        ({"bad.npy": b"not numpy"}, "bad.npy: cannot be read"),
    ],
)
def test_folders_that_will_not_do(checkpoint, tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ArgumentError, match=message):
        read_corpus(tmp_path, checkpoint.tokenizer, 24, checkpoint.spec.vocab_size)


def test_ids_of_another_vocabulary_are_refused(checkpoint, tmp_path):
    np.save(tmp_path / "own.npy", np.full(100, 5000))
    with pytest.raises(ArgumentError, match="token id 5000 in it, and the model has 0 to 299"):
        read_corpus(tmp_path, checkpoint.tokenizer, 24, checkpoint.spec.vocab_size)


@pytest.mark.parametrize(("name", "value"), [("size", 0), ("rate", 0), ("distil", 1.5), ("length", 9), ("rank", "x")])
def test_recipes_that_will_not_do(name, value):
    with pytest.raises(ArgumentError, match=name):
        Recipe(**{"size": 8, name: value})
