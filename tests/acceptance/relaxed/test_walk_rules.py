"""typical, top-k and entropy-gated: the walk of coupled with likely drafts let pass."""

import math

import pytest
import torch

from glimpse import acceptance
from glimpse.acceptance import NodeNoise
from glimpse.acceptance.lossy import LOSSY, Lossy
from glimpse.acceptance.relaxed.walks import WINDOW, Row, WalkRule, entropy, walk
from glimpse.sampling import Laws

WALKS = [name for name in LOSSY.names() if isinstance(LOSSY.get(name), type) and issubclass(LOSSY.get(name), WalkRule)]
P = [0.5, 0.3, 0.15, 0.05]


def passing(name, strength, p=P):
    """Which tokens the rule lets pass under the law p."""
    laws = Laws.dense(torch.tensor([p] * len(p)).log())
    return Lossy(name, strength).rule.passes(laws, torch.arange(len(p))).tolist()


def test_which_rules_there_are():
    assert WALKS == ["entropy-gated", "top-k", "typical"]


def test_typical():
    h = -sum(x * math.log(x) for x in P)
    assert float(entropy(Laws.dense(torch.tensor([P]).log()))) == pytest.approx(h, rel=1e-5)
    assert min(0.3**2, 0.3 * math.exp(-h)) == 0.09
    assert passing("typical", 0.3) == [True, True, True, False]
    assert passing("typical", 0.6) == [True, True, False, False], f"0.6 exp(-{h:.3f}) = {0.6 * math.exp(-h):.3f}"
    flat = [0.25] * 4
    assert passing("typical", 0.9, flat) == [True] * 4, "0.9 exp(-ln 4) = 0.225 < 0.25"
    assert passing("typical", math.inf) == [False] * 4


def test_typical_at_numbers_whose_square_is_none():
    assert passing("typical", 1e200) == [False] * 4
    assert passing("typical", 0.0) == [True] * 4


def test_top_k():
    assert [sum(passing("top-k", k)) for k in range(5)] == [0, 1, 2, 3, 4]


def test_entropy_gate():
    assert passing("entropy-gated", 1.0) == [True] * 4
    assert passing("entropy-gated", 1.3) == [False] * 4


def test_entropy_of_candidates_with_padding():
    laws = Laws(torch.tensor([[0.5, 0.5, 0.0]]).log(), torch.tensor([[1, 2, 0]]), torch.zeros(1).bool(), 9)
    assert float(entropy(laws)) == pytest.approx(math.log(2))


@pytest.mark.parametrize("name", WALKS)
def test_the_strict_setting_is_coupled_on_chains_and_trees(name, toy, make_draft):
    rule, exact = Lossy(name, LOSSY.get(name).strengths.strict).rule, acceptance.resolve("coupled")
    logp = torch.log_softmax(torch.randn(8, 23, generator=torch.Generator().manual_seed(1)), 1)
    for seed in range(200):
        noise = NodeNoise(torch.full((8,), seed), torch.tensor([5, 6, 6, 7, 5, 6, 7, 8]))
        draft = make_draft([[seed % 23, 3, 4], [1, 2, seed % 7]], [[-1, -1, 0], [-1, 0, 1]])
        mine, right = (each.accept(draft, Laws.dense(logp), noise) for each in (rule, exact))
        assert (mine.paths(), mine.token_lists()) == (right.paths(), right.token_lists())
        assert sum(mine.relaxed) == 0


def row(tokens, parents, picks, passes=None, chances=None):
    n = len(tokens)
    return Row(tokens, parents, picks, passes or [True] * n, chances or [0.5] * n)


def test_a_draft_that_passes_is_taken_and_counted():
    assert walk(row([1, 2, 3], [-1, 0, 1], [1, 9, 3, 4]), 0) == ([0, 1, 2], 1)
    assert walk(row([1, 2, 3], [-1, 0, 1], [1, 9, 3, 4], [True, False, True]), 0) == ([0], 0)


def test_of_a_tree_the_pick_goes_before_what_passes_and_the_likeliest_of_that_first():
    assert walk(row([1, 2], [-1, -1], [2, 0, 0]), 0) == ([1], 0)
    assert walk(row([1, 2], [-1, -1], [5, 0, 0], chances=[0.1, 0.4]), 0) == ([1], 1)


def test_a_deferred_mismatch_needs_the_window_behind_it():
    tokens, parents = list(range(10, 16)), list(range(-1, 5))
    picks = [99, 11, 12, 13, 14, 15, 16]
    assert walk(row(tokens, parents, picks), WINDOW) == ([0, 1, 2, 3, 4, 5], 1)
    assert walk(row(tokens[:4], parents[:4], picks[:5]), WINDOW) == ([], 0), "the draft ends within the window"
    wrong = [*picks[:3], 98, *picks[4:]]
    assert walk(row(tokens, parents, wrong), WINDOW) == ([], 0), "a second mismatch within the window"


@pytest.mark.parametrize("name", WALKS)
def test_what_comes_out_is_the_path_and_then_the_targets_own_pick(name, make_draft):
    logp = torch.tensor([P] * 8).log()
    strongest, seen = LOSSY.get(name).strengths.grid[-1], set()
    for seed in range(60):
        noise = NodeNoise(torch.full((8,), seed), torch.tensor([5, 6, 7, 8, 9, 10, 11, 12]))
        got = Lossy(name, strongest).rule.accept(make_draft([[1, 0, 0, 1, 0, 0, 0]]), Laws.dense(logp), noise)
        count = got.counts[0]
        assert got.token_lists()[0][:count] == [1, 0, 0, 1, 0, 0, 0][:count]
        plain = acceptance.resolve("coupled").accept(make_draft([[]]), Laws.dense(logp[:1]), NodeNoise(
            noise.seeds[count : count + 1], noise.positions[count : count + 1]))  # fmt: skip
        assert got.token_lists()[0][count:] == plain.token_lists()[0]
        seen.add(got.relaxed[0] > 0)
    assert True in seen


def test_what_the_target_forbids_never_passes(make_draft):
    laws = Laws.dense(torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]]).log())
    for name in WALKS:
        for seed in range(30):
            noise = NodeNoise(torch.full((2,), seed), torch.tensor([5, 6]))
            assert Lossy(name, LOSSY.get(name).strengths.grid[-1]).rule.accept(
                make_draft([[2]]), laws, noise
            ).counts == (0,)  # fmt: skip


@pytest.mark.parametrize("tokens", [[2, 0], [0, 2]])
@pytest.mark.parametrize("name", WALKS)
def test_every_token_is_judged_by_the_law_it_would_be_drawn_from(name, tokens, make_draft):
    """What is possible after the root alone passes there, and nowhere behind it."""
    wide, narrow = [0.1, 0.1, 0.4, 0.4], [0.5, 0.5, 0.0, 0.0]
    laws = Laws.dense(torch.tensor([wide, narrow, narrow]).log())
    rule = Lossy(name, LOSSY.get(name).strengths.grid[-1]).rule
    passes, chances = rule._judged(make_draft([tokens]), laws, [0])
    assert chances == pytest.approx([wide[tokens[0]], narrow[tokens[1]]])
    assert passes[1] is (tokens[1] == 0)
    assert passes[0] or tokens[0] == 0
