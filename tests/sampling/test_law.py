"""Laws and picks: dense and truncated laws are the same thing, ties go to the lowest id."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glimpse.errors import GlimpseError
from glimpse.sampling import Laws, Role, pick
from glimpse.sampling.law import entropy_of
from glimpse.sampling.noise import gumbel

INF = math.inf


def truncated(rows, vocab, width):
    """Laws from dicts of probabilities, padded with id 0."""
    ids = torch.zeros(len(rows), width, dtype=torch.int64)
    logp = torch.full((len(rows), width), -INF)
    for row, law in enumerate(rows):
        for column, (token, p) in enumerate(law.items()):
            ids[row, column], logp[row, column] = token, math.log(p)
    return Laws(logp, ids, torch.zeros(len(rows), dtype=torch.bool), vocab)


SMALL = truncated([{2: 0.5, 0: 0.5}, {4: 1.0}, {1: 0.25, 3: 0.5, 0: 0.25}], vocab=5, width=4)


def test_probs_and_dense_form():
    right = torch.tensor([[0.5, 0, 0.5, 0, 0], [0, 0, 0, 0, 1], [0.25, 0.25, 0, 0.5, 0]])
    assert torch.allclose(SMALL.probs(), right)
    assert torch.allclose(SMALL.to_dense().probs(), right)
    assert len(SMALL) == 3


@pytest.mark.parametrize("dense", [False, True])
def test_logp_of(dense):
    laws = SMALL.to_dense() if dense else SMALL
    got = laws.logp_of(torch.tensor([2, 0, 3])).exp()
    assert torch.allclose(got, torch.tensor([0.5, 0.0, 0.5]))
    assert laws.logp_of(torch.tensor([-1, 5, 99])).tolist() == [-INF] * 3, "ids that no law holds"


def test_point():
    laws = Laws.point(torch.tensor([3, 1]), 4)
    assert laws.probs().tolist() == [[0, 0, 0, 1], [0, 1, 0, 0]]
    assert laws.greedy.all()
    zero = torch.zeros(2, dtype=torch.int64)
    assert pick(laws, zero, zero, Role.TARGET).tolist() == [3, 1]


def test_select_and_cat():
    swapped = Laws.cat(
        [SMALL.select(torch.tensor([2, 0])), SMALL.select(slice(1, 2)), Laws.point(torch.tensor([1]), 5)]
    )
    assert torch.allclose(swapped.probs()[:3], SMALL.probs()[[2, 0, 1]])
    assert swapped.ids is not None
    assert swapped.greedy.tolist() == [False, False, False, True]
    mixed = Laws.cat([SMALL, Laws.dense(torch.full((1, 5), math.log(0.2)))])
    assert mixed.ids is None
    assert torch.allclose(mixed.probs()[3], torch.full((5,), 0.2))
    with pytest.raises(GlimpseError, match="different vocabularies"):
        Laws.cat([SMALL, Laws.point(torch.tensor([1]), 6)])


def test_entropy_follows_select_and_cat_and_is_lazy():
    calls = []

    def source():
        calls.append(1)
        return torch.tensor([1.0, 2.0, 3.0])

    laws = Laws(SMALL.logp, SMALL.ids, SMALL.greedy, 5, source)
    chosen, joined = laws.select(torch.tensor([2])), Laws.cat([laws, laws.select(slice(0, 1))])
    assert not calls
    assert chosen.entropy.tolist() == [3.0]
    assert joined.entropy.tolist() == [1.0, 2.0, 3.0, 1.0]
    assert len(calls) == 1
    with pytest.raises(GlimpseError, match="entropy"):
        _ = laws.slim().entropy


def test_entropy_value():
    scores = torch.tensor([[0.0, 0.0, -INF, -INF], [1.0, 2.0, 3.0, 4.0], [1e4, 0.0, 0.0, 0.0]])
    p = torch.softmax(scores[1].double(), 0)
    right = [math.log(2), float(-(p * p.log()).sum()), 0.0]
    assert torch.allclose(entropy_of(scores), torch.tensor(right, dtype=torch.float32), atol=1e-6)


def test_pick_is_the_argmax_of_logp_plus_gumbel_noise():
    logp = torch.log_softmax(torch.randn(50, 33, generator=torch.Generator().manual_seed(0)), 1)
    seeds, positions = torch.arange(50), torch.arange(50) * 3
    noise = gumbel(seeds, positions, Role.TARGET, 0, torch.arange(33))
    assert torch.equal(pick(Laws.dense(logp), seeds, positions, Role.TARGET), (logp + noise).argmax(1))


def test_ties_go_to_the_lowest_id(monkeypatch):
    import glimpse.sampling.law as law

    monkeypatch.setattr(law, "log_exponential_of", lambda key, ids: torch.zeros(key.shape[0], ids.shape[-1]))
    zero = torch.zeros(1, dtype=torch.int64)
    dense = Laws.dense(torch.tensor([[-3.0, -1.0, -2.0, -1.0, -1.0]]))
    assert pick(dense, zero, zero, Role.TARGET).tolist() == [1]
    ids = torch.tensor([[4, 3, 1, 0, 0]])
    some = Laws(torch.tensor([[-1.0, -1.0, -1.0, -3.0, -INF]]), ids, torch.tensor([False]), 5)
    assert pick(some, zero, zero, Role.TARGET).tolist() == [1]


def test_nan_gives_a_legal_id():
    zero = torch.zeros(1, dtype=torch.int64)
    for laws in (SMALL, SMALL.to_dense()):
        bad = Laws(laws.logp[:1] * math.nan, None if laws.ids is None else laws.ids[:1], laws.greedy[:1], 5)
        assert 0 <= int(pick(bad, zero, zero, Role.TARGET)) < 5


def test_no_laws_at_all():
    none = torch.zeros(0, dtype=torch.int64)
    for laws in (SMALL, SMALL.to_dense()):
        assert pick(laws.select(none), none, none, Role.TARGET).tolist() == []


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_dense_and_truncated_laws_pick_alike(data):
    vocab = data.draw(st.integers(2, 40))
    n = data.draw(st.integers(1, 5))
    rows = []
    for _ in range(n):
        tokens = data.draw(st.permutations(range(vocab)))[: data.draw(st.integers(1, vocab))]
        weights = [data.draw(st.floats(0.01, 1)) for _ in tokens]
        rows.append({token: w / sum(weights) for token, w in zip(tokens, weights, strict=True)})
    laws = truncated(rows, vocab, vocab)
    seeds = torch.tensor([data.draw(st.integers(-(2**63), 2**63 - 1)) for _ in rows])
    positions = torch.arange(n)
    for role in Role:
        a, b = (pick(form, seeds, positions, role, 7) for form in (laws, laws.to_dense()))
        assert torch.equal(a, b)
        assert all(int(token) in row for token, row in zip(a, rows, strict=True))


def test_rows_do_not_depend_on_their_batch():
    logp = torch.log_softmax(torch.randn(20, 4099, generator=torch.Generator().manual_seed(1)), 1)
    seeds, positions = torch.arange(20) * 17, torch.arange(20)
    together = pick(Laws.dense(logp), seeds, positions, Role.TARGET)
    alone = [pick(Laws.dense(logp[i : i + 1]), seeds[i : i + 1], positions[i : i + 1], Role.TARGET) for i in range(20)]
    assert torch.equal(together, torch.cat(alone))
