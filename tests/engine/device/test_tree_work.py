"""Trees verified on the device write what the engine writes: one small model under Triton's interpreter."""

from __future__ import annotations

import random

import pytest
import torch

from engine.device.batches import BUDGET, WIDTH, begins
from glimpse.attention.triton.likely import chances_of, likeliest
from glimpse.attention.triton.picking import RowSettings, Sample
from glimpse.engine.device.batch import DeviceBatch, Limits
from glimpse.engine.device.rounds import RoundSettings
from glimpse.engine.device.tree_state import TreeState
from glimpse.engine.device.tree_work import TreeWork
from glimpse.engine.successors import likeliest as right_ones
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


def put(state, trees):
    """Hands trees to the device."""
    for row, nodes in enumerate(trees):
        for node, (token, parent) in enumerate(nodes):
            state.sheet[row, node], state.sheet[row, QUERIES - 1 + node] = token, parent
        state.sheet[row, -1] = len(nodes)
    state.put(len(trees))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_text_is_the_engines(llm, batch, temperature):
    """Rounds of random trees, right and wrong, of 0 to 4 nodes; the last ones read what was moved."""
    params, rounds = params_of(temperature), batch.rounds
    right = [list(output.token_ids) for output in llm.generate(batch.prompts, params)]
    draw, counts = random.Random(3), []
    with torch.inference_mode():
        batch.resample([resolve(own) for own in params])
        state = TreeState(batch.rows, successors=True)
        for sizes in ((4, 3), (4, 0), (2, 2)):
            done = [len(written) for written in batch.written()]
            rest = [own[have:] for own, have in zip(right, done, strict=True)]
            trees = [tree(draw, own, size) for own, size in zip(rest, sizes, strict=True)]
            put(state, trees)
            tokens = sum(sizes) + 2
            TreeWork(rounds._core, state, 2, tokens + 1, max(sizes) + 1).verify()
            state.send(tokens)
            counts.append(batch.rows.counts.tolist())
            paths = state.paths_of(2, max(counts[-1]) - 1)
            for row, (nodes, own) in enumerate(zip(trees, rest, strict=True)):
                path = paths[row][: counts[-1][row] - 1]
                assert [nodes[node][0] for node in path] == own[: len(path)]
    written = batch.written()
    assert all(begins(own, other) for own, other in zip(right, written, strict=True))
    assert max(map(max, counts[:2])) > 2, "a path should have moved before the last round"


def test_the_successors_come_back_token_by_token(llm, batch):
    """What the target thinks after the last committed token of a row, and after a node, is what the next one is."""
    right = [list(output.token_ids) for output in llm.generate(batch.prompts, params_of(0.0))]
    with torch.inference_mode():
        batch.resample([resolve(own) for own in params_of(0.0)])
        state = TreeState(batch.rows, successors=True)
        put(state, [[(right[0][0], -1)], [(200, -1), (right[1][0], -1)]])
        TreeWork(batch.rounds._core, state, 2, 8, 3).verify()
        state.send(5)
    ids, chances = chances_of(torch.from_numpy(state.successors(5)))
    assert ids[[0, 1, 2, 4], 0].tolist() == [*right[0][:2], *right[1][:2]]
    assert (chances.diff(dim=1) <= 0).all()
    assert (chances.sum(1) <= 1).all()


@pytest.mark.parametrize(("columns", "vocab"), [(300, 300), (320, 297), (5, 5)])
def test_the_likeliest_are_those_of_all_logits(columns, vocab):
    """Also where the head has more columns than there are tokens; logits that are not finite have no successors."""
    logits = torch.randn(3, columns, generator=torch.Generator().manual_seed(1)) * 4
    logits[2, 1] = torch.nan
    sample = Sample(3, vocab, "cpu")
    ones = torch.ones(3, dtype=torch.float64)
    settings = RowSettings(ones, torch.ones(3, dtype=torch.int64), ones, torch.full_like(ones, -torch.inf))
    sample(logits, settings, torch.arange(3), torch.arange(3))
    out = torch.full((3, 16), -1, dtype=torch.int32)
    likeliest(sample, logits, out)
    right, wanted = right_ones(logits[:, :vocab])
    count = right.shape[1]
    assert out[:2, :count].tolist() == right[:2].tolist()
    chances = out[:, 8:].contiguous().view(torch.float32)
    torch.testing.assert_close(chances[:, :count], wanted)
    assert not chances[:, count:].any()


@pytest.mark.parametrize("queries", [0, QUERIES + 1, 65])
def test_trees_that_have_no_room_are_refused(batch, queries):
    with pytest.raises(ArgumentError, match=f"trees of {queries - 1} nodes; these rows take at most 4"):
        TreeWork(batch.rounds._core, TreeState(batch.rows, successors=False), 2, 8, queries)
