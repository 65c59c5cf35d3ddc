"""A grown twin computes what its source computes: logits, greedy text, recall sets."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.model.dense import DenseAttention, DenseRun, logits_of
from tests.model.peer import random_tokens
from tests.tiny import tiny_config, tiny_weights

from glimpse.bench.grow import SHAPES, cost_label, grow, shape_named
from glimpse.bench.grow_plan import GrownShape, Placed, plan_twin, twin_spec
from glimpse.bench.grow_weights import GrownWeights
from glimpse.cache.recall import RecallBudget, select
from glimpse.errors import ArgumentError
from glimpse.model.build import build_decoder
from glimpse.model.hf_config import spec_from_config
from glimpse.model.rope_scaling import plain_frequencies
from glimpse.model.weights.memory import MemoryWeights

DOUBLED = GrownShape(hidden_size=96, heads=12, kv_heads=4, head_dim=16, intermediate_size=192, layers=4)
ODD = GrownShape(hidden_size=75, heads=15, kv_heads=3, head_dim=12, intermediate_size=131, layers=5, vocab_size=403)
SPLIT = GrownShape(heads=16, kv_heads=8, head_dim=16, hidden_size=128)
"""Groups of two: the source's three query heads a group have to part."""


def source(architecture="llama", **overrides):
    config = tiny_config(architecture, **overrides)
    spec, weights = spec_from_config(config), MemoryWeights(tiny_weights(config))
    return spec, weights


def pair(shape, architecture="llama", **overrides):
    spec, weights = source(architecture, **overrides)
    return build_decoder(spec, weights), grow(spec, weights, shape)


CASES = [
    *((architecture, shape, {}) for architecture in ("llama", "mistral", "qwen2", "qwen3") for shape in (DOUBLED, ODD)),
    ("llama", SPLIT, {}),
    ("qwen3", SPLIT, {}),
    ("llama", GrownShape(), {}),
    ("llama", GrownShape(hidden_size=64), {"tie_word_embeddings": True}),
    ("llama", ODD, {"attention_bias": True, "mlp_bias": True}),
    ("qwen3", GrownShape(head_dim=10), {"rms_norm_eps": 0.3}),
    ("llama", ODD, {"rms_norm_eps": 0.3}),
    ("llama", DOUBLED, {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}}),
    ("llama", ODD, {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}, "max_position_embeddings": 32}),
]


@pytest.mark.parametrize(("architecture", "shape", "overrides"), CASES)
def test_logits_and_greedy_text_are_the_sources(architecture, shape, overrides):
    small, twin = pair(shape, architecture, **overrides)
    tokens = random_tokens(40)
    ours, theirs = logits_of(twin, tokens)[:, :97], logits_of(small, tokens)
    assert (ours - theirs).abs().max() < 2e-5 * theirs.abs().max()
    assert DenseRun(twin, tokens[:9]).greedy(64) == DenseRun(small, tokens[:9]).greedy(64)


def test_what_does_not_exist_is_never_the_largest():
    _, twin = pair(replace(ODD, vocab_size=700))
    logits = logits_of(twin, random_tokens(40))
    assert logits.shape[1] == 700
    assert (logits[:, 97:].max(1).values < logits[:, :97].max(1).values).all()


def test_every_rotary_pair_is_found_at_its_new_place():
    """theta' = theta^(H/h): for 64 to 128, theta squared."""
    spec, _ = source(head_dim=64, rope_theta=100000.0)
    twin = twin_spec(spec, GrownShape(head_dim=128))
    assert twin.rope.theta == pytest.approx(100000.0**2)
    ours, theirs = plain_frequencies(twin.rope.theta, 128), plain_frequencies(100000.0, 64)
    torch.testing.assert_close(ours[:32], theirs, rtol=1e-6, atol=0)
    placed = twin.rope.scaling.frequencies(twin.rope.theta, 128)
    assert torch.equal(placed[:32], theirs)
    torch.testing.assert_close(placed, ours, rtol=1e-6, atol=0)
    assert isinstance(twin.rope.scaling, Placed)


class Importance(DenseAttention):
    """Keeps the attention weights [heads, n, n] of each layer."""

    def __init__(self, decoder):
        super().__init__(decoder)
        self.weights = []

    def __call__(self, layer, q, k, v):
        keys = k.repeat_interleave(self.groups, dim=1)
        scores = torch.einsum("nhd,mhd->hnm", q, keys) / q.shape[-1] ** 0.5
        mask = torch.ones(len(q), len(q), dtype=torch.bool).tril()
        self.weights.append(scores.masked_fill(~mask, float("-inf")).softmax(-1))
        return super().__call__(layer, q, k, v)


@torch.inference_mode()
def recall_sets(decoder, tokens):
    """[layers, kv_heads, budget]: as an engine chooses them, from the last 16 queries."""
    attend, positions = Importance(decoder), torch.arange(len(tokens))
    decoder.forward(torch.tensor(tokens), positions, positions + 1, attend)
    weights = torch.stack(attend.weights)[:, :, -16:].sum(2)
    scores = weights.unflatten(1, (decoder.spec.kv_heads, -1)).sum(2)
    return select(scores, RecallBudget(share=0.1, floor=24, sinks=2, recent=4))


def overlap(a, b):
    return len(set(a.tolist()) & set(b.tolist())) / len(a)


@pytest.mark.parametrize(
    ("shape", "least", "mean"),
    [
        # Groups of four: three real heads and a silent one, so the very same sets.
        (GrownShape(heads=16, kv_heads=4, head_dim=16, hidden_size=96, layers=4), 1.0, 1.0),
        (ODD, 0.6, 0.8),
        (SPLIT, 0.5, 0.75),
    ],
)
def test_recall_sets_of_real_heads_overlap_the_sources(shape, least, mean):
    small, twin = pair(shape)
    tokens = random_tokens(200)
    plan = plan_twin(small.spec, twin.spec)
    ours, theirs = recall_sets(twin, tokens), recall_sets(small, tokens)
    shares = [
        overlap(ours[plan.real_layers[layer], plan.kv_head_of(head)], theirs[layer, head // 3])
        for layer in range(2)
        for head in range(6)
    ]
    assert min(shares) >= least
    assert sum(shares) / len(shares) >= mean


def test_cancelling_heads_cancel_over_any_recall_set():
    """They sit in one group and copy one head, so they read the same positions."""
    spec, _ = source()
    for shape in (DOUBLED, ODD, SPLIT):
        twin = twin_spec(spec, shape)
        plan, room = plan_twin(spec, twin), twin.heads // twin.kv_heads
        for group in range(twin.kv_heads):
            rows = range(group * room, (group + 1) * room)
            totals = dict.fromkeys(plan.heads.source, 0)
            for row in rows:
                assert plan.heads.source[row] // 3 == plan.kv_heads[group]
                totals[plan.heads.source[row]] += plan.heads.write[row]
            real = {head for head in range(6) if plan.heads.real[head] in rows}
            assert {head for head, total in totals.items() if total} == real


def test_a_twin_is_dense_and_its_stand_in_layers_see_what_the_real_ones_see():
    small, twin = pair(GrownShape(layers=5, hidden_size=64))
    plan = plan_twin(small.spec, twin.spec)
    assert plan.layers == ((0, False), (0, True), (1, False), (1, False), (1, True))
    attend, positions = DenseAttention(twin), torch.arange(12)
    with torch.inference_mode():
        twin.forward(torch.tensor(random_tokens(12)), positions, positions + 1, attend)
    assert torch.equal(attend.keys[0][0], attend.keys[1][0])
    assert torch.equal(attend.values[2][0], attend.values[4][0])
    assert (twin.embedding.weight == 0).float().mean() < 0.01


def test_the_named_shapes_weigh_what_they_are_named_after():
    demo = replace(
        source()[0], layers=30, hidden_size=576, heads=9, kv_heads=3, head_dim=64, intermediate_size=1536,
        vocab_size=49152, tied=True,
    )  # fmt: skip
    large = twin_spec(demo, shape_named("llama-3.1-8b"))
    assert large.parameters() == 8_030_261_248
    assert cost_label(demo, large) == "135M tokens at 8.0B cost"
    small = twin_spec(demo, shape_named("1.7b"))
    read = small.parameters() - small.vocab_size * small.hidden_size
    qwen = replace(
        demo, layers=28, hidden_size=2048, heads=16, kv_heads=8, head_dim=128, intermediate_size=6144,
        vocab_size=151936, qk_norm=True,
    )  # fmt: skip
    assert qwen.parameters() == 1_720_574_976
    assert read == pytest.approx(qwen.parameters(), rel=0.005)
    for shape in SHAPES.values():
        plan_twin(demo, twin_spec(demo, shape))


def test_shapes_that_cannot_be_are_refused():
    spec, weights = source()
    for shape, words in [
        (GrownShape(hidden_size=40), "hidden_size 40 is less than the source's 48"),
        (GrownShape(heads=7), "7 query heads over 2 KV heads"),
        (GrownShape(head_dim=9), "of 9 do not make a decoder"),
        (GrownShape(kv_heads=3, heads=6), "at least 4 KV heads are needed"),
    ]:
        with pytest.raises(ArgumentError, match=words):
            GrownWeights(spec, weights, shape)
    with pytest.raises(ArgumentError, match=r"unknown shape '70b'; known: llama-3\.1-8b, 1\.7b"):
        grow(spec, weights, "70b")


def test_bfloat16_text_is_the_sources_up_to_near_ties():
    spec, weights = source()
    small = build_decoder(spec, weights)
    twin = grow(spec, weights, DOUBLED, dtype=torch.bfloat16)
    assert twin.dtype is torch.bfloat16
    tokens = random_tokens(40)
    ours, theirs = logits_of(twin, tokens), logits_of(small, tokens)
    best = theirs.topk(2).values
    decided = best[:, 0] - best[:, 1] > 0.5
    assert decided.sum() >= 10
    assert torch.equal(ours.argmax(1)[decided], theirs.argmax(1)[decided])
