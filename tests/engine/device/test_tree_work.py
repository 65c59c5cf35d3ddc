"""Trees verified on the device write what the engine writes: one small model under Triton's interpreter."""

from __future__ import annotations

import random

import pytest
import torch

from engine.device.batches import BUDGET, WIDTH, begins
from glimpse.engine.device.batch import DeviceBatch, Limits
from glimpse.engine.device.rounds import RoundSettings
from glimpse.engine.device.tree_work import TreeWork
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from glimpse.sampling.resolve import resolve
from tiny import write_tiny_checkpoint

QUERIES = 5


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = write_tiny_checkpoint(
        tmp_path_factory.mktemp("trees") / "tiny", num_hidden_layers=1, max_position_embeddings=128
    )
    return LLM(folder, drafter="none", pacer="fixed")


@pytest.fixture(scope="module")
def batch(llm):
    """Two rows that have read their prompts."""
    limits = Limits(2, WIDTH, QUERIES - 1)
    made = DeviceBatch(llm._loaded.checkpoint.decoder, llm.tokenizer.vocab_size, limits, RoundSettings(BUDGET))
    ids = llm.tokenizer.encode("hello world, this is a test of the thing. " * 4)
    made.prompts = [ids[:6], ids[:9]]
    with torch.inference_mode():
        made.fill(made.prompts, [resolve(params) for params in params_of(0.0)], 20)
    return made


def params_of(temperature):
    return [SamplingParams(max_tokens=12, temperature=temperature, seed=seed, ignore_eos=True) for seed in (1, 2)]


def tree(draw, right, nodes):
    """Nodes of which some go on as `right` does: (tokens, parents)."""
    made, depths = [], []
    while len(made) < nodes:
        parent = draw.randrange(-1, len(made))
        depth = depths[parent] + 1 if parent >= 0 else 0
        token = right[depth] if depth < len(right) and draw.random() < 0.7 else draw.randrange(3, 200)
        if (token, parent) not in made:
            made.append((token, parent))
            depths.append(depth)
    return made


def put(batch, work, trees):
    rows = batch.rows
    for row, nodes in enumerate(trees):
        begin = int(rows.length[row])
        for node, (token, parent) in enumerate(nodes):
            rows.tokens[row, begin + node], work.parents[row, node] = token, parent
        rows.drafted[row] = len(nodes)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_text_is_the_engines(llm, batch, temperature):
    """Rounds of random trees, right and wrong, of 0 to 4 nodes; the last ones read what was moved."""
    params, rounds = params_of(temperature), batch.rounds
    right = [list(output.token_ids) for output in llm.generate(batch.prompts, params)]
    draw, counts = random.Random(3), []
    with torch.inference_mode():
        batch.resample([resolve(own) for own in params])
        work = TreeWork(rounds._core, 2, QUERIES)
        for sizes in ((4, 3), (4, 0), (2, 2)):
            done = [len(written) for written in batch.written()]
            rest = [own[have:] for own, have in zip(right, done, strict=True)]
            put(batch, work, [tree(draw, own, size) for own, size in zip(rest, sizes, strict=True)])
            work.verify()
            counts.append(batch.rows.counts.tolist())
    written = batch.written()
    assert all(begins(own, other) for own, other in zip(right, written, strict=True))
    assert max(map(max, counts[:2])) > 2, "a path should have moved before the last round"


@pytest.mark.parametrize("queries", [1, QUERIES + 1, 65])
def test_trees_that_have_no_room_are_refused(batch, queries):
    with pytest.raises(ArgumentError, match=f"trees of {queries - 1} nodes; these rows take from 1 to 4"):
        TreeWork(batch.rounds._core, 2, queries)
