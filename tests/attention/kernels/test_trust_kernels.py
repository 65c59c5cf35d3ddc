"""The kernels of Slow-Fast Inference: weights, the Selector's choice of sets, and who takes a fast step."""

from __future__ import annotations

import pytest
import torch

from glimpse.attention.triton.attention import HeadShape
from glimpse.attention.triton.fusion import Fusion
from glimpse.attention.triton.mixed import Want
from glimpse.attention.triton.select import Selection, capacity
from glimpse.attention.triton.trusting import UNREAD, bound, learned_at, pace, passed
from glimpse.attention.triton.weights import weigh_rows
from glimpse.cache.recall import RecallBudget
from glimpse.cache.selector import Selector

LENGTHS, WIDTH = [100, 0, 20, 65, 14], 112
BUDGET = RecallBudget(share=0.01, floor=14, sinks=2, recent=5)
SELECTORS = {
    "the paper's": Selector(),
    "two neighbours": Selector(reach=2),
    "other prior": Selector(most_prior=0.5, age=1.5, age_power=2.0, end=0.5),
    "none of it": Selector(most_prior=0.0, suppression=0.0, exclusivity=0.0),
}


def ints(values, device):
    return torch.tensor(values, dtype=torch.int32, device=device)


def weights_of(layers, heads, device):
    """Those of one query; what lies past a row's length is absurd."""
    found = torch.rand(layers, len(LENGTHS), heads, WIDTH, generator=torch.Generator().manual_seed(2)).pow(6)
    for row, length in enumerate(LENGTHS):
        found[:, row, :, :length] /= found[:, row, :, :length].sum(-1, keepdim=True)
        found[:, row, :, length:] = torch.nan
    return found.to(device)


@pytest.mark.parametrize("name", SELECTORS)
@pytest.mark.parametrize("heads", [1, 3])
def test_the_sets_are_the_selectors(name, heads, device):
    """By the same equations in float32; a row of length 0 keeps what it had."""
    selector, layers, rows = SELECTORS[name], 2, len(LENGTHS)
    weights, lengths = weights_of(layers, heads, device), ints(LENGTHS, device)
    scores, budgets = torch.zeros_like(weights), BUDGET.positions_of(lengths)
    fusion = Fusion(
        BUDGET.sinks, BUDGET.recent, selector.most_prior, selector.suppression, selector.exclusivity, selector.age,
        selector.age_power, selector.end, selector.reach,
    )  # fmt: skip
    fusion(weights, lengths, budgets, scores)
    table = torch.randperm(rows * 7, generator=torch.Generator().manual_seed(0)).view(rows, 7).to(device, torch.int32)
    selected, counts = capacity(rows, heads, layers, 14, device)
    selected.fill_(-1)
    Selection(16, BUDGET.sinks, BUDGET.recent)(scores, lengths, lengths, budgets, table, selected, counts)
    for row, length in enumerate(LENGTHS):
        if not length:
            assert (selected[:, row] == -1).all()
            continue
        right = selector.select(weights[:, row, :, None, :length].cpu(), None, BUDGET)
        slots = table[row].cpu().long()[right // 16] * 16 + right % 16
        assert counts[row] == right.shape[-1]
        assert torch.equal(selected[:, row].cpu().long(), slots)
        inside = slice(BUDGET.sinks, length - BUDGET.recent)
        if length > 14:
            z = selector.scores(weights[:, row, :, None, inside].cpu(), None)
            assert torch.allclose(scores[:, row, :, inside].log().cpu(), z, atol=1e-4)


def test_float32_scores_that_bfloat16_cannot_tell_apart(device):
    """As many as are wanted, the greatest, the lowest position first among equal ones."""
    rows, width = 3, 112
    scores = 1 + torch.randint(0, 40, (2, rows, 3, width), generator=torch.Generator().manual_seed(1)) * 1e-6
    lengths, budgets = ints([100, 31, 64], device), ints([30, 40, 9], device)
    table = torch.arange(rows * 7).view(rows, 7).to(device, torch.int32)
    selected, counts = capacity(rows, 3, 2, 40, device)
    Selection(16, sinks=2, recent=3, block=32)(scores.to(device), lengths, lengths, budgets, table, selected, counts)
    for row, (length, budget) in enumerate([(100, 30), (31, 40), (64, 9)]):
        count = min(length, budget)
        assert counts[row] == count
        for own, found in zip(scores[:, row].flatten(0, 1), selected[:, row].flatten(0, 1), strict=True):
            own = own[:length].clone()
            own[:2] = own[length - 3 :] = torch.inf
            right = own.sort(descending=True, stable=True).indices[:count].sort().values
            assert (found[:count].cpu() - row * 112).tolist() == right.tolist()


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(6, 2, 24), (4, 4, 32)])
def test_weights_of_the_last_token(heads, kv_heads, dim, dtype, device):
    """Softmax weights summed over a group, in every layer; rows of length 0 are left alone."""
    generator, layers, lengths = torch.Generator().manual_seed(4), 2, [70, 0, 16, 200]
    q = torch.randn(layers, 4, heads, dim, generator=generator).to(device, dtype)
    keys = torch.randn(layers, kv_heads, 60 * 16, dim, generator=generator).to(device, dtype)
    table = torch.randperm(60, generator=generator)[:52].view(4, 13).to(device, torch.int32)
    right, reference = torch.full((layers, 4, kv_heads, 208), 7.0), torch.zeros(layers, 4, heads)
    for row, length in enumerate(lengths):
        if length:
            place = torch.arange(length)
            own = keys[:, :, table[row].cpu().long()[place // 16] * 16 + place % 16].cpu().double()
            grouped = q[:, row].cpu().double().view(layers, kv_heads, -1, dim)
            logits = grouped @ own.transpose(-1, -2) * dim**-0.5
            reference[:, row] = logits.logsumexp(-1).flatten(1)
            right[:, row, :, :length] = logits.softmax(-1).sum(2)
    out = torch.full_like(right, 7.0).to(device)
    shape = HeadShape(heads, kv_heads, dim)
    weigh_rows(shape, 16, q, keys, table, ints(lengths, device), reference.to(device), out)
    assert torch.allclose(out.cpu(), right, rtol=1e-3 if dtype is not torch.float32 else 1e-4, atol=1e-6)


def test_who_takes_a_fast_step(device):
    """Idle, unread, within a sentence, after an end, after the most steps, without room, and with the least room."""
    ids = torch.tensor([3, 3, 3, 5, 3, 3, 3], device=device)
    lengths, since = ints([0, 10, 11, 12, 13, 14, 15], device), ints([1, UNREAD.value, 1, 1, 4, 1, 1], device)
    limit, ends = ints([30, 30, 30, 30, 30, 15, 17], device), torch.zeros(9, dtype=torch.uint8, device=device)
    ends[5] = 1
    out = tuple(torch.full((7,), -7, dtype=torch.int32, device=device) for _ in range(4))
    pace(ids, lengths, limit, since, ends, 4, out)
    fast, full, recalled, learned = (each.tolist() for each in out)
    assert fast == [0, 0, 1, 0, 0, 0, 1]
    assert full == [0, 10, 0, 12, 13, 14, 0]
    assert recalled == [0, 0, 11, 0, 0, 0, 15]
    assert learned == [0, 0, 0, 12, 13, 14, 0]


def test_what_a_step_leaves(device):
    """Idle, slow, fast, a broken fast row, a broken slow row."""
    lengths, fast = ints([0, 10, 11, 12, 13], device), ints([0, 0, 1, 1, 0], device)
    broken, since = ints([0, 0, 0, 1, 1], device), ints([2, 3, 1, 1, 4], device)
    learned, base, judged = ints([0, 10, 0, 0, 13], device), ints([5] * 5, device), ints([9] * 5, device)
    passed(lengths, fast, broken, since, learned, base, judged, 4)
    assert since.tolist() == [2, 0, 2, 4, 0]
    assert learned.tolist() == [0, 10, 0, 0, 0]
    assert base.tolist() == [5, 10, 5, 5, 5]
    assert judged.tolist() == [0, 0, 1, 1, 0]


def test_who_verifies_at_a_boundary(device):
    """Idle, unread, within a sentence, behind a drafted end, after a committed one, at the most, without room."""
    tokens = torch.full((7, 20), 3, device=device)
    tokens[3, 11], tokens[4, 9] = 5, 5
    length, drafted = ints([10] * 7, device), ints([1, 0, 1, 2, 0, 4, 1], device)
    active, limit = ints([0, 1, 1, 1, 1, 1, 1], device), ints([20, 20, 13, 20, 20, 20, 12], device)
    since, want = ints([0, UNREAD.value, 0, 0, 0, 0, 0], device), ints([9] * 7, device)
    ends = torch.zeros(9, dtype=torch.uint8, device=device)
    ends[5] = 1
    bound(tokens, length, drafted, active, limit, since, ends, 4, want)
    assert want.tolist() == [Want.IDLE, Want.PLAIN, Want.DRAFT, Want.ANEW, Want.ANEW, Want.ANEW, Want.ANEW]


def test_what_a_verification_leaves(device):
    """A row that drafted, an unread one, one that verified, one that found no room, one that broke, one at its end."""
    want = ints([Want.DRAFT, Want.PLAIN, Want.ANEW, Want.ANEW, Want.ANEW, Want.ANEW], device)
    counts, broken = ints([0, 1, 3, 0, 0, 2], device), ints([0, 0, 0, 0, 1, 0], device)
    scored, known = ints([9] * 6, device), ints([0, 10, 12, 0, 9, 0], device)
    since, learned = ints([0, UNREAD.value, 0, 0, 0, 0], device), ints([7] * 6, device)
    base = ints([5] * 6, device)
    learned_at(want, counts, broken, scored, known, since, learned, base)
    assert since.tolist() == [0, 0, 0, 0, UNREAD.value, 0]
    assert learned.tolist() == [0, 0, 9, 0, 0, 0]
    assert base.tolist() == [5, 5, 9, 5, 5, 5]


def test_the_selectors_constants_are_the_kernels():
    """A constant that the Selector gains must be looked at here too."""
    kernel = {name for name in Fusion.__dataclass_fields__ if name not in ("sinks", "recent")}
    assert kernel | {"power", "key_norm"} == set(Selector.__dataclass_fields__)
