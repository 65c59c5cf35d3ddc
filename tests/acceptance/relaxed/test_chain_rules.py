"""The relaxed rules for chains: their laws by hand, strict settings lossless, what they refuse."""

import math

import pytest
import torch

from glimpse.acceptance import NodeNoise
from glimpse.acceptance.lossy import LOSSY, Lossy
from glimpse.acceptance.relaxed.divergence import jensen_shannon
from glimpse.acceptance.relaxed.template import ChainRule, residual
from glimpse.errors import ArgumentError
from glimpse.sampling import Laws, Role
from glimpse.sampling.law import pick

P = [0.5, 0.3, 0.15, 0.05]
Q = [0.2, 0.2, 0.5, 0.1]
CHAINS = [name for name in LOSSY.names() if issubclass(LOSSY.get(name), ChainRule)]
STRICT = [name for name in CHAINS if LOSSY.get(name).strengths.strict is not None]


def rule(name, strength=None):
    return Lossy(name, strength).rule


def relax(name, strength, token):
    p, q = torch.tensor([P], dtype=torch.float64), torch.tensor([Q], dtype=torch.float64)
    return rule(name, strength).relax(p, q, torch.tensor([token]))


def emitted(name, strength, p=P, q=Q):
    """The exact law of the token that comes out where q drafts and p judges."""
    out = torch.zeros(len(p), dtype=torch.float64)
    for token, chance in ((token, chance) for token, chance in enumerate(q) if chance):
        made = rule(name, strength).relax(
            torch.tensor([p], dtype=torch.float64), torch.tensor([q], dtype=torch.float64), torch.tensor([token])
        )
        taken = min(1.0, float(made.accept) / chance)
        out[token] += chance * taken
        out += chance * (1 - taken) * made.rest[0]
    return out.tolist()


def test_which_rules_there_are():
    assert CHAINS == ["cactus", "cascade-opt", "cascade-tok", "contrastive", "ensemble", "fuzzy", "mentored", "r-fuzzy"]
    assert sorted({*CHAINS} - {*STRICT}) == ["cascade-tok"]


@pytest.mark.parametrize("name", STRICT)
def test_the_strict_setting_emits_the_targets_law(name):
    assert emitted(name, LOSSY.get(name).strengths.strict) == pytest.approx(P, abs=1e-7)
    assert emitted(name, LOSSY.get(name).strengths.strict, P, P) == pytest.approx(P, abs=1e-7)


@pytest.mark.parametrize("name", CHAINS)
def test_relaxed_settings_emit_a_law_that_is_another(name):
    strongest = LOSSY.get(name).strengths.grid[-1]
    law = emitted(name, strongest)
    assert sum(law) == pytest.approx(1)
    assert law != pytest.approx(P, abs=1e-3)


def test_cactus_raises_the_drafted_token():
    made = relax("cactus", 0.25, 2)
    raised = 0.15 + math.sqrt(2 * 0.25 * 0.15 * 0.85)
    assert float(made.accept) == pytest.approx(raised)
    assert float(relax("cactus", 10, 0).accept) == 1.0
    law = [x * (1 - raised) / 0.85 for x in P[:2]] + [raised] + [P[3] * (1 - raised) / 0.85]
    rest = [max(0.0, a - b) for a, b in zip(law, Q, strict=True)]
    assert made.rest[0].tolist() == pytest.approx([x / sum(rest) for x in rest])


def test_mentored_divides_and_falls_back_on_p():
    assert float(relax("mentored", 0.3, 2).accept) == pytest.approx(0.15 / 0.7)
    assert float(relax("mentored", 0.7, 0).accept) == 1.0
    assert relax("mentored", 0.3, 2).rest[0].tolist() == pytest.approx([0.75, 0.25, 0, 0])


def test_ensemble_is_a_mixture():
    assert emitted("ensemble", 0.2) == pytest.approx([0.8 * a + 0.2 * b for a, b in zip(P, Q, strict=True)], abs=1e-7)
    assert emitted("ensemble", 1.0) == pytest.approx(Q, abs=1e-7)


def test_fuzzy_rules_turn_at_the_divergence():
    middle = [(a + b) / 2 for a, b in zip(P, Q, strict=True)]
    js = sum(x * math.log(x / m) for law in (P, Q) for x, m in zip(law, middle, strict=True)) / 2
    assert float(jensen_shannon(torch.tensor([P]), torch.tensor([Q]))) == pytest.approx(js, rel=1e-4)
    for name in ("fuzzy", "r-fuzzy"):
        assert emitted(name, js + 0.001) == pytest.approx(Q, abs=1e-7)
        assert emitted(name, js - 0.001) == pytest.approx(P, abs=1e-7)
    assert float(relax("fuzzy", js - 0.001, 0).accept) == 0
    assert float(relax("r-fuzzy", js - 0.001, 0).accept) == pytest.approx(P[0])
    assert float(jensen_shannon(torch.tensor([[1.0, 0]]), torch.tensor([[0, 1.0]]))) == pytest.approx(math.log(2))


def test_cascade_opt_turns_where_the_draft_is_as_sure():
    apart = sum(abs(a - b) for a, b in zip(P, Q, strict=True)) / 2
    assert emitted("cascade-opt", 0.0) == pytest.approx(Q, abs=1e-7), "max q = max p = 0.5"
    assert emitted("cascade-opt", -0.01) == pytest.approx(P, abs=1e-7), "half a point less than max p is asked more of"
    less = [0.4, 0.2, 0.3, 0.1]
    apart = sum(abs(a - b) for a, b in zip(P, less, strict=True)) / 2
    assert emitted("cascade-opt", 0.1 / apart + 0.01, q=less) == pytest.approx(less, abs=1e-7)
    assert emitted("cascade-opt", 0.1 / apart - 0.01, q=less) == pytest.approx(P, abs=1e-7)


def test_cascade_tok_takes_the_draft_within_the_trusted_set():
    outside = Q[2] + Q[3]
    law = [Q[0] + P[0] * outside, Q[1] + P[1] * outside, P[2] * outside, P[3] * outside]
    assert emitted("cascade-tok", 0.4) == pytest.approx(law, abs=1e-7), "0.3 is 0.6 of 0.5"
    assert emitted("cascade-tok", 1.0) == pytest.approx(Q, abs=1e-7)


def test_contrastive_favours_what_the_draft_misses():
    scores = [a * (a / b) ** 0.5 for a, b in zip(P, Q, strict=True)]
    assert emitted("contrastive", 0.5) == pytest.approx([x / sum(scores) for x in scores], abs=1e-6)
    cut = emitted("contrastive", 1.0, [0.6, 0.4, 0.0, 0.0], [0.5, 0.0, 0.3, 0.2])
    assert cut == pytest.approx([0.72 / 1.52, 0.8 / 1.52, 0, 0], abs=1e-6), "token 1 counts as one of 0.2"


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_largest_numbers_give_laws(name, dtype):
    """Where the drafted token has all of p, or none of it, or as much as of q."""
    strengths = LOSSY.get(name).strengths
    largest = (
        1e308
        if math.isinf(strengths.high)
        else math.nextafter(strengths.high, 0)
        if strengths.below
        else strengths.high
    )
    p = torch.tensor([P, [1, 0, 0, 0], [0, 0.4, 0.6, 0], [0.25] * 4], dtype=dtype)
    q = torch.tensor([Q, [0.5, 0.5, 0, 0], [0.5, 0, 0.5, 0], [0.25] * 4], dtype=dtype)
    for strength in (strengths.low, largest):
        for token in (0, 1):
            inside = q[:, token] > 0
            made = rule(name, strength).relax(p[inside], q[inside], torch.full((int(inside.sum()),), token))
            assert ((made.accept >= 0) & made.accept.isfinite()).all()
            assert made.rest.sum(1).tolist() == pytest.approx([1.0] * len(made.rest))
            assert made.rest.min() >= 0


def test_contrastive_at_its_strongest_is_the_token_that_the_draft_misses_most():
    assert emitted("contrastive", 1e308) == pytest.approx([1, 0, 0, 0]), "0.5 / 0.2 is the largest ratio"


@pytest.mark.parametrize(
    ("name", "strength", "chance"),
    [("cactus", 10, 0), ("mentored", 0.95, 0), ("contrastive", 1, 0), ("cascade-tok", 0.8, 0), ("fuzzy", 0.3, 0),
     ("r-fuzzy", 0.3, 0), ("r-fuzzy", 1, 1), ("ensemble", 0.2, 0.2), ("cascade-opt", -0.1, 0), ("cascade-opt", 0, 1)],
)  # fmt: skip
def test_what_becomes_of_a_wrong_draft_at_temperature_0(name, strength, chance):
    """Laws of one token each, and those differ: JS is ln 2 and TV 1, both as sure as can be."""
    assert emitted(name, strength, [1.0, 0.0], [0.0, 1.0])[1] == pytest.approx(chance)


def test_residual_of_equal_laws_is_the_law():
    law = torch.tensor([P])
    assert torch.allclose(residual(law, law), law)


@pytest.mark.parametrize("name", CHAINS)
def test_the_whole_rule_emits_what_its_law_says(name, make_draft):
    """4,000 rows, every draft drawn of q with noise of its own; the first token of each."""
    rows, strength = 4000, LOSSY.get(name).strengths.grid[-1]
    q = Laws.dense(torch.tensor([Q] * rows).log())
    seeds = torch.arange(rows)
    drafts = pick(q, seeds, torch.full((rows,), 7), Role.DRAFT, 5)
    laws = Laws.dense(torch.tensor([P] * (2 * rows)).log())
    noise = NodeNoise(seeds.repeat_interleave(2), torch.tensor([7, 8]).repeat(rows))
    got = rule(name, strength).accept(make_draft([[int(t)] for t in drafts], law=q), laws, noise)
    counts = torch.bincount(torch.tensor([tokens[0] for tokens in got.token_lists()]), minlength=4) / rows
    for seen, right in zip(counts.tolist(), emitted(name, strength), strict=True):
        assert abs(seen - right) < 5 * math.sqrt(right * (1 - right) / rows) + 1e-6
    assert sum(got.counts) > 0
    assert all(extra <= count for extra, count in zip(got.relaxed, got.counts, strict=True))


@pytest.mark.parametrize("name", STRICT)
def test_nothing_counts_as_relaxed_at_the_strict_setting(name, make_draft):
    rows = 300
    q = Laws.dense(torch.tensor([Q] * rows).log())
    drafts = [[int(t)] for t in pick(q, torch.arange(rows), torch.full((rows,), 7), Role.DRAFT, 5)]
    noise = NodeNoise(torch.arange(rows).repeat_interleave(2), torch.tensor([7, 8]).repeat(rows))
    laws = Laws.dense(torch.tensor([P] * (2 * rows)).log())
    got = rule(name, LOSSY.get(name).strengths.strict).accept(make_draft(drafts, law=q), laws, noise)
    assert sum(got.relaxed) == 0


@pytest.mark.parametrize("name", CHAINS)
def test_empty_rows_trees_and_drafts_without_a_law(name, make_draft):
    laws = Laws.point(torch.tensor([3, 1]), 4)
    noise = NodeNoise(torch.zeros(2, dtype=torch.int64), torch.arange(2))
    assert rule(name).accept(make_draft([[], []]), laws, noise).token_lists() == [[3], [1]]
    with pytest.raises(ArgumentError, match=f"'{name}' takes chains"):
        rule(name).accept(make_draft([[0, 1]], [[-1, -1]]), laws, noise)
    with pytest.raises(ArgumentError, match=f"'{name}' needs the law"):
        rule(name).accept(make_draft([[3]]), laws, noise)
