"""A grown checkpoint in the engine: the source's text, greedy and sampled, with a drafter that reads recall sets."""

from __future__ import annotations

import pytest
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.grow import grow_checkpoint
from glimpse.bench.grow_plan import GrownShape
from glimpse.engine.build import build_engine
from glimpse.engine.loaded import load
from glimpse.engine.options import EngineOptions
from glimpse.engine.submit import make_requests
from glimpse.model import load_checkpoint
from glimpse.sampling.params import SamplingParams

SHAPE = GrownShape(hidden_size=96, heads=16, kv_heads=4, head_dim=16, intermediate_size=150, layers=3, vocab_size=400)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("grow") / "tiny")
    return load_checkpoint(folder), grow_checkpoint(folder, SHAPE)


def run(checkpoint, drafter, temperature):
    loaded = load(checkpoint, None, 1)
    options = EngineOptions(drafter=drafter, pacer="fixed", draft_tokens=4, budget=0.5, budget_floor=16)
    engine = build_engine(loaded, options)
    params = SamplingParams(max_tokens=48, temperature=temperature, seed=3, ignore_eos=True)
    prompt = checkpoint.tokenizer.encode("the heat of the sea and the rest of the tea, ") * 3
    (request,) = make_requests(loaded, engine, prompt, params)
    engine.add(request)
    while engine.busy:
        engine.step()
    return request.committer.token_ids, request.speculation


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_twin_writes_and_drafts_what_the_source_does(checkpoints, temperature):
    source, twin = checkpoints
    plain, _ = run(source, "none", temperature)
    assert len(plain) == 48
    assert max(plain) < 300
    for drafter in ("none", "sparse"):
        theirs, drafted = run(source, drafter, temperature)
        ours, grown = run(twin, drafter, temperature)
        assert ours == theirs == plain
        # Groups of four hold three real heads and a silent one: equal recall sets, and so equal drafts.
        assert (grown.drafted, grown.accepted, grown.rounds) == (drafted.drafted, drafted.accepted, drafted.rounds)
