"""coupled is plain sampling token for token, whatever is drafted; the walk; trees."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glimpse import acceptance
from glimpse.acceptance.exact import walk
from glimpse.sampling import Role

COUPLED = acceptance.resolve("coupled")

OPTIONS = [
    {"temperature": 1.0},
    {"temperature": 0.0, "repetition_penalty": 1.2},
    {"temperature": 0.8, "top_k": 8, "top_p": 0.9},
    {"temperature": 0.9, "frequency_penalty": 0.8, "presence_penalty": 0.2, "min_p": 0.02},
    {"bad_words": [[3, 4], [5], [1, 2, 3]], "min_tokens": 20, "stop_token_ids": [7], "logit_bias": {9: 2.0}},
]


def random_tree(rng, vocab, size, guess):
    """Random tokens in a random tree; some follow `guess`, so that paths of several nodes are accepted."""
    tokens, parents, depth = [], [], []
    for node in range(size):
        parent = rng.randint(-1, node - 1)
        at = 0 if parent < 0 else depth[parent] + 1
        tokens.append(guess[at] if at < len(guess) and rng.random() < 0.6 else rng.randrange(vocab))
        parents.append(parent)
        depth.append(at)
    return tokens, parents


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("trees", [False, True])
def test_coupled_is_plain_sampling_whatever_is_drafted(toy, decoding, make_draft, options, trees):
    prompt, count, rng = [1, 2, 3], 60, random.Random(1)
    right = decoding(toy, prompt, seed=4, **options).plain(count + 20)
    run, accepted = decoding(toy, prompt, seed=4, **options), 0
    while len(run.text) < count + 3:
        size, guess = rng.choice([0, 1, 3, 8]), right[len(run.text) - 3 :]
        tokens, parents = random_tree(rng, toy.vocab, size, guess)
        if not trees:
            parents = list(range(-1, size - 1))
            tokens = [g if rng.random() < 0.7 else t for g, t in zip(guess, tokens, strict=False)]
        accepted += len(run.round(COUPLED, make_draft([tokens], [parents])))
    assert run.text[3:] == right[: len(run.text) - 3]
    assert accepted > 5, "otherwise the accepted path was hardly tested"


@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_coupled_with_self_drafts(toy, decoding, gamma):
    options = {"seed": -3, "temperature": 0.8, "top_k": 10, "frequency_penalty": 0.3}
    right = decoding(toy, [1], **options).plain(100)
    run, accepted, rounds = decoding(toy, [1], **options), 0, 0
    while len(run.text) < 80:
        accepted += len(run.round(COUPLED, run.self_draft(gamma, Role.TARGET)))
        rounds += 1
    assert run.text[1:] == right[: len(run.text) - 1]
    assert accepted / (rounds if gamma == 1 else 2 * rounds) > 0.3


def test_a_perfect_draft_is_wholly_accepted(agreeing_toy, decoding):
    run = decoding(agreeing_toy, [1], seed=8, temperature=0.8, top_p=0.9)
    for _ in range(10):
        assert run.round(COUPLED, run.self_draft(8, Role.TARGET)) == list(range(8))


def test_same_seed_same_text_other_seed_other_text(toy, decoding):
    texts = [decoding(toy, [1], seed=seed).plain(30) for seed in (7, 7, *range(8, 27))]
    assert texts[0] == texts[1]
    assert len({tuple(text) for text in texts}) == 20


@pytest.mark.parametrize(
    ("tokens", "parents", "picks", "right"),
    [
        ([5, 6], [-1, 0], [5, 6, 7], [0, 1]),
        ([5, 6], [-1, 0], [6, 6, 7], []),
        ([5, 6, 7], [-1, -1, 1], [6, 0, 7, 1], [1, 2]),  # second child, then its child
        ([5, 5, 6, 6], [-1, -1, 0, 1], [5, 6, 6, 0, 0], [0, 2]),  # equal siblings: the first
        ([5, 6, 5], [-1, 0, -1], [5, 9, 0, 5], [0]),  # a cousin with the right token is not followed
        ([], [], [3], []),
    ],
)
def test_walk(tokens, parents, picks, right):
    assert walk(tokens, parents, picks) == right


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 12), st.randoms(use_true_random=False))
def test_walk_equals_a_search_for_children(size, rng):
    tokens = [rng.randrange(3) for _ in range(size)]
    parents = [rng.randint(-1, node - 1) for node in range(size)]
    picks = [rng.randrange(3) for _ in range(size + 1)]
    at, right = -1, []
    while True:
        children = [n for n in range(size) if parents[n] == at and tokens[n] == picks[at + 1]]
        if not children:
            break
        at = children[0]
        right.append(at)
    assert walk(tokens, parents, picks) == right


def test_siblings_share_their_positions_noise(toy, decoding, make_draft):
    """All children of the root drafted: exactly the one that plain sampling picks is accepted."""
    for seed in range(30):
        right = decoding(toy, [1], seed=seed).plain(1)
        run = decoding(toy, [1], seed=seed)
        path = run.round(COUPLED, make_draft([list(range(toy.vocab))], [[-1] * toy.vocab]))
        assert path == right
        assert run.text[1:2] == right
