"""Draft trees through the whole engine: the text of plain decoding, and a cache, statistics and pages as after it."""

from __future__ import annotations

import random

import pytest
import torch
from tests.doubles import Empty, Oracle, RandomPacer, with_parts
from tests.engine.test_equality import PARAMS
from tests.trees import Spine, Trees, with_trees

from glimpse.cache.rows import RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting import DRAFTERS
from glimpse.drafting.racer.drafter import RacerDrafter
from glimpse.drafting.suffix.drafter import SuffixDrafter
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

MORE = PARAMS | {"logprobs": {"temperature": 0.9, "seed": 4, "logprobs": 3}}
"""Greedy and sampled, with every stateful processor and stop tokens."""


def jobs(lengths=range(1, 201)):
    """A prompt of each length, with the kinds of parameters and output lengths in turn."""
    made = []
    for place, length in enumerate(lengths):
        ids = random.Random(length).choices(range(3, 300), k=length)
        options = list(MORE.values())[place % len(MORE)]
        made.append((ids, SamplingParams(max_tokens=max(options.get("min_tokens", 0), 1 + 5 * place % 17), **options)))
    return made


def run(llm, work):
    prompts, params = zip(*work, strict=True)
    return llm.generate(prompts, params)


@pytest.fixture(scope="module")
def plain(tiny):
    return run(tiny, jobs())


def texts(outputs, work):
    return [(ids, out.token_ids) for (ids, _), out in zip(work, outputs, strict=True)]


def same(got, right):
    """Equal tokens, endings and logprobs (these but for rounding)."""
    assert [out.token_ids for out in got] == [out.token_ids for out in right]
    assert [out.finish_reason for out in got] == [out.finish_reason for out in right]
    for mine, theirs in zip(got, right, strict=True):
        assert [entry.token_id for entry in mine.logprobs or ()] == [entry.token_id for entry in theirs.logprobs or ()]
        values = [[entry.logprob for entry in out.logprobs or ()] for out in (mine, theirs)]
        assert values[0] == pytest.approx(values[1], abs=1e-4)


@pytest.mark.parametrize("rule", ["coupled", "matched"])
@pytest.mark.parametrize(
    ("shape", "nodes", "right"),
    [
        ("random", 1, 0.5),
        ("random", 20, 0.6),
        ("random", 64, 0.9),
        ("wide", 64, 0.5),
        ("deep", 64, 0.8),
        ("deep", 9, 0),
    ],
)
def test_the_text_is_plain_decodings(tiny, plain, shape, nodes, right, rule):
    drafter = Trees(texts(plain, jobs()), shape, nodes, right)
    outputs = run(with_trees(tiny, drafter, acceptance=rule, draft_tokens=8), jobs())
    same(outputs, plain)
    drafted, accepted = (sum(getattr(out.speculation, name) for out in outputs) for name in ("drafted", "accepted"))
    assert (0.01 * drafted < accepted < 0.8 * drafted) if right else accepted < 0.02 * drafted
    _all_back(tiny)


def _all_back(llm):
    pool = llm._loaded.pool
    assert (pool.free_pages, pool.promised) == (pool.pages, 0)


@pytest.mark.parametrize("width", [0, 1, 5])
def test_a_tree_with_the_right_path_is_accepted_to_its_depth(tiny, plain, width):
    """Its nodes lie behind wrong siblings, so all must move; the statistics count nodes, path and depth."""
    drafter = Spine(texts(plain, jobs()), width)
    outputs = run(with_trees(tiny, drafter, draft_tokens=6), jobs())
    same(outputs, plain)
    for outcome in drafter.outcomes:
        assert outcome.drafted == outcome.accepted * (width + 1)
        assert list(outcome.path or range(outcome.accepted)) == list(range(width, outcome.drafted, width + 1))
    for out in outputs:
        spoken = out.speculation
        assert spoken.drafted == spoken.accepted * (width + 1)
        assert spoken.acceptance_by_position == [1.0] * min(6, len(out.token_ids) - 2 if len(out.token_ids) > 1 else 0)


@pytest.mark.parametrize("pacer", ["entropy", "random"])
def test_a_pacer_may_cut_a_tree_anywhere(tiny, plain, pacer):
    work, right = jobs()[::3], plain[::3]
    drafter = Trees(texts(right, work), "random", 30, 0.7)
    pacing = RandomPacer(8) if pacer == "random" else None
    llm = with_trees(tiny, drafter, pacing, **({} if pacing else {"pacer": "entropy"}))
    same(run(llm, work), right)
    _all_back(tiny)


class Watching:
    """Mixed into a drafter: keys and values of the verified positions, and the importance of the accepted queries."""

    importance = 3

    def __init__(self, *given):
        super().__init__(*given)
        self.importance, self.cached, self.weights = Watching.importance, {}, {}

    def absorb(self, rows, outcomes):
        super().absorb(rows, outcomes)
        for outcome in outcomes:
            sequence, length = rows.rows.sequence(outcome.slot), int(rows.rows.verified_len[outcome.slot])
            slots = sequence.slots_of(torch.arange(length))
            self.cached[length] = torch.stack([sequence.pool.keys[:, :, slots], sequence.pool.values[:, :, slots]])
            for back, query in enumerate(reversed(outcome.importance.unbind(2))):
                assert outcome.importance.shape[-1] == length
                self.weights[length - back] = query[..., : length - back]


class WatchingChain(Watching, Oracle):
    pass


class WatchingSpine(Watching, Spine):
    pass


def test_cache_and_importance_are_the_accepted_paths(tiny):
    """As after the same tokens as a chain, whatever lay between."""
    ids, params = random.Random(1).choices(range(3, 300), k=60), SamplingParams(max_tokens=30, temperature=0.0)
    known = [(ids, tiny.generate([ids], params)[0].token_ids)]
    chain, tree = WatchingChain(known), WatchingSpine(known, 3)
    with_parts(tiny, chain, draft_tokens=7).generate([ids], params)
    with_trees(tiny, tree, draft_tokens=7).generate([ids], params)
    assert chain.cached.keys() == tree.cached.keys()
    assert chain.weights.keys() == tree.weights.keys()
    assert len(chain.cached) > 3
    for length, held in chain.cached.items():
        torch.testing.assert_close(tree.cached[length], held, atol=1e-4, rtol=1e-4)
    for length, weights in chain.weights.items():
        torch.testing.assert_close(tree.weights[length], weights, atol=2e-3, rtol=2e-2)


@pytest.mark.parametrize("shape", ["random", "deep"])
def test_a_tree_that_has_no_pages_of_its_own_is_cut(tiny_folder, shape):
    """Rows as long as their context in a pool that holds just these: nodes past the end have no place."""
    llm = LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=3, max_context=70)
    work = [
        (random.Random(seed).choices(range(3, 300), k=length), SamplingParams(temperature=0.8, seed=seed))
        for seed, length in enumerate((69, 40, 64, 70, 66, 50, 1, 2, 30))
    ]
    right = run(llm, work)
    drafter = Trees(texts(right, work), shape, 200, 0.8)
    same(run(with_trees(llm, drafter, draft_tokens=40), work), right)
    assert max(outcome.drafted for outcome in drafter.outcomes) > 30
    _all_back(llm)


def test_a_pinned_prompt_is_never_written(tiny):
    params = SamplingParams(max_tokens=14, temperature=0.8, seed=3)
    work = [(random.Random(length).choices(range(3, 300), k=length), params) for length in (100, 180)]
    right = run(tiny, work)
    for ids, _ in work:
        with tiny.pinned(ids):
            pool = tiny._loaded.pool
            pages = [page for page in range(pool.pages) if pool._references[page]]
            slots = torch.cat([torch.arange(page * pool.page_size, (page + 1) * pool.page_size) for page in pages])
            before = pool.keys[:, :, slots].clone()
            drafter = Trees(texts(right, work), "random", 64, 0.8)
            same(run(with_trees(tiny, drafter, draft_tokens=8), work), right)
            assert torch.equal(pool.keys[:, :, slots], before)
    _all_back(tiny)


def test_a_stop_inside_a_tree_ends_there(tiny):
    """The stop is the third token of a draft that goes on; only what precedes its end counts as accepted."""
    ids = [5, 6, 7] * 9
    free = tiny.generate([ids], SamplingParams(max_tokens=12, temperature=0.0))[0].token_ids
    stop = next(token for token in free[3:6] if token not in free[:3])
    params = SamplingParams(max_tokens=12, temperature=0.0, stop_token_ids=[stop])
    right = tiny.generate([ids], params)[0]
    drafter = Spine([(ids, free)], 2)
    out = with_trees(tiny, drafter, draft_tokens=8).generate([ids], params)[0]
    same([out], [right])
    assert out.speculation.accepted == len(out.token_ids) - 1 < 8
    assert drafter.outcomes[-1].path == list(range(2, 3 * out.speculation.accepted, 3))


class Built(Empty):
    """What a registry may name."""

    gives_tree = True
    budget = 64


def test_rejection_refuses_trees_in_one_line(tiny, monkeypatch):
    monkeypatch.setitem(DRAFTERS.builtin, "branching", f"{__name__}:Built")
    said = "acceptance 'rejection' takes chains, and drafter 'branching' gives trees; 'coupled' and 'matched' take them"
    with pytest.raises(ArgumentError) as raised:
        tiny.variant(drafter="branching", acceptance="rejection")
    assert str(raised.value) == said
    assert tiny.variant(drafter="branching")._engine.parts.rows.max_draft == 64


def test_entropy_keeps_the_branches_that_are_worth_it(tiny_folder):
    """By each node's whole path: siblings are alternatives, not one another's conditions."""
    llm = LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=1, max_context=200)
    drafter = Trees([([5, 6, 7], list(range(3, 103)))], "wide", 8, 0.0)
    fast = with_trees(llm, drafter, pacer="entropy")
    rows, pacer = fast._engine.parts.rows, fast._engine.parts.pacer
    view = RowView(rows, (0,))
    rows.open(0, [5, 6, 7], Sequence(llm._loaded.pool), 100)
    pacer.admit(view)
    tokens, chances = torch.arange(8), torch.tensor([0.3, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05])
    rows.put_draft(0, tokens, torch.full((8,), -1), chances)
    wide = pacer.trim(view)[0]
    rows.drop_draft(0)
    rows.put_draft(0, tokens, torch.arange(-1, 7), chances)
    assert wide > pacer.trim(view)[0] + 2
    rows.close(0)


@pytest.mark.parametrize("kind", [RacerDrafter, SuffixDrafter])
@pytest.mark.parametrize("pacer", ["fixed", "entropy"])
def test_retrieved_trees_change_nothing(tiny, kind, pacer):
    """On texts that repeat themselves, so that something is found."""
    work = [([*ids[:12], *ids[:12], *ids[:9]], params) for ids, params in jobs(range(100, 142))]
    right = run(tiny, work)
    outputs = run(with_trees(tiny, kind(budget=24), pacer=pacer), work)
    same(outputs, right)
    assert pacer == "entropy" or sum(out.speculation.accepted for out in outputs) > 0
    _all_back(tiny)
