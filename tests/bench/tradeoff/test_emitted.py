"""The law of the token that comes out, against what the rules themselves draw."""

import math

import pytest
import torch

from glimpse.acceptance import NodeNoise
from glimpse.acceptance.lossy import LOSSY, Lossy
from glimpse.bench.tradeoff.emitted import accepted, emitted, kl, tv
from glimpse.drafting.drafter import Draft
from glimpse.sampling.law import Laws, pick
from glimpse.sampling.noise import draft_salt

P, Q = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0]), torch.tensor([0.2, 0.2, 0.4, 0.1, 0.1])
ROWS = 4000
RULES = [name for name in LOSSY.names() if name not in ("slowfast", "entropy-gated")]
"""The window of the last one is taken to agree, which a draft of one token cannot show."""


@pytest.mark.parametrize("name", RULES)
def test_what_a_rule_draws_has_this_law(name):
    rule = Lossy(name, LOSSY.get(name).strengths.grid[-1]).rule
    law, seeds = emitted(rule, P, Q), torch.arange(ROWS)
    q = Laws.dense(Q.log().expand(ROWS, -1))
    positions = torch.full((ROWS,), 9)
    drafted = pick(q, seeds, positions, rule.draft_role, draft_salt(rule.draft_role, positions))
    draft = Draft(drafted, torch.full((ROWS,), -1), tuple(range(ROWS + 1)), torch.ones(ROWS), torch.zeros(ROWS), q)
    noise = NodeNoise(seeds.repeat_interleave(2), torch.tensor([9, 10]).repeat(ROWS))
    got = rule.accept(draft, Laws.dense(P.log().expand(2 * ROWS, -1)), noise)
    counts = torch.bincount(torch.tensor([tokens[0] for tokens in got.token_lists()]), minlength=5) / ROWS
    for seen, right in zip(counts.tolist(), law.tolist(), strict=True):
        assert abs(seen - right) < 5 * math.sqrt(max(right, 1e-3) / ROWS) + 0.02


@pytest.mark.parametrize("name", [name for name in LOSSY.names() if name != "slowfast"])
def test_strict_rules_emit_the_targets_law(name):
    strict = LOSSY.get(name).strengths.strict
    if strict is not None:
        assert torch.allclose(emitted(Lossy(name, strict).rule, P, Q), P, atol=1e-6)


def test_trust_emits_the_drafts_law_and_exact_rules_the_targets():
    assert torch.allclose(emitted(Lossy("slowfast", None).rule, P, Q), Q)
    assert emitted(None, P, Q) is P


def test_divergences():
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    assert kl(p, q) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert tv(p, q) == pytest.approx(0.25)
    assert kl(p, p) == 0
    assert math.isfinite(kl(p, torch.tensor([1.0, 0.0])))


@pytest.mark.parametrize("name", ["cactus", "mentored", "ensemble", "contrastive", "typical", "top-k"])
def test_a_relaxed_rule_accepts_more(name):
    strengths = LOSSY.get(name).strengths
    strict, loose = (accepted(Lossy(name, value).rule, P, Q) for value in (strengths.strict, strengths.grid[-1]))
    assert 0 < strict < 1
    assert loose > strict or name == "contrastive"


def test_chances_of_acceptance_by_hand():
    assert accepted(None, P, Q) == pytest.approx(0.2 + 0.2 + 0.15 + 0.05)
    assert accepted(Lossy("cactus", 0.0).rule, P, Q) == pytest.approx(0.6)
    assert accepted(Lossy("mentored", 0.5).rule, P, Q) == pytest.approx(0.2 + 0.2 + 0.3 + 0.1)
    assert accepted(Lossy("slowfast", None).rule, P, Q) == 1.0
