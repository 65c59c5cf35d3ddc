"""The public comparison: its random decoders, its clock, and what its result file says of who was faster."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model.dense import logits_of

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SMALL = {"hidden_size": 32, "intermediate_size": 48, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 8,
         "vocab_size": 61}  # fmt: skip


@pytest.fixture
def script(monkeypatch):
    """Modules of benchmarks/ as the scripts there import one another."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


@pytest.mark.parametrize("shape", ["demo", "llama-3.1-8b"])
def test_random_decoders_have_the_shape_and_run(script, shape):
    noise = script("noise_decoder")
    spec = noise.spec_named(shape)
    assert (spec.tied, spec.layers) == ((True, 30) if shape == "demo" else (False, 32))
    small = replace(spec, **SMALL, rope=replace(spec.rope, head_dim=SMALL["head_dim"]))
    decoder = noise.noise_decoder(small, torch.device("cpu"), torch.float32)
    logits = logits_of(decoder, [1, 2, 3])
    assert logits.shape == (3, 61)
    assert torch.isfinite(logits).all()
    again = noise.noise_decoder(small, torch.device("cpu"), torch.float32)
    assert torch.equal(logits, logits_of(again, [1, 2, 3]))


def test_seconds_are_a_token(script, monkeypatch):
    timing, now = script("peer_timing"), [0.0]

    def run():
        now[0] += 5.0

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    assert timing.repeated(run, steps=50, repeats=3) == pytest.approx((0.1, 0.1, 0.1))
    timed = timing.Timed("us", "demo", 8000, (0.3, 0.1, 0.2), 9.0)
    entry = timed.run(floor=0.1)
    assert (entry["ms"], entry["tokens_per_s"], entry["over_floor"]) == pytest.approx((200, 5, 2))


def test_ours_is_judged_by_each_peer_beside_it_and_by_the_floor(script):
    peers, timed = script("gpu_peers"), script("peer_timing").Timed
    large = "llama-3.1-8b"
    found = [
        timed("glimpse", large, 8000, (5e-3,), 1.0), timed("gpt-fast", large, 8000, (6e-3,), 90.0),
        timed("transformers", large, 8000, (4e-3,), 50.0), timed("gpt-fast", large, 512, (5e-3,), 90.0),
    ]  # fmt: skip
    targets = {target.what: target for target in peers.targets(found, lambda shape, context: 4e-3)}
    assert [(target.target, round(target.value, 3), target.ok) for target in targets.values()] == [
        ("<= 1.0", 0.833, True), ("<= 1.0", 1.25, False), ("<= 5.18", 5.0, True), ("<= 1.35", 1.25, True),
    ]  # fmt: skip
    table = peers.table(found, lambda shape, context: 4e-3)
    assert [row[1] for row in table.rows] == ["gpt-fast", "transformers", "glimpse", "gpt-fast"]
    assert all(len(row) == len(table.columns) for row in table.rows)
