"""Drafts that a lossy rule lets pass, against the rules themselves, settings of every kind in one batch."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from attention.kernels.test_sample import OFF, SETTINGS, SMALL, device_settings, draw, right_law, settings_of
from glimpse.acceptance.relaxed.walks import TopK, Typical
from glimpse.attention.triton.picking import Sample
from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.relaxing import Passing, Rule, relax
from glimpse.attention.triton.rows import Fed
from glimpse.sampling.law import pick
from glimpse.sampling.noise import Role

QUERIES = 3
RULES = [
    (Typical(0.3), Rule(Passing.TYPICAL, 0.3)),
    (Typical(0.9), Rule(Passing.TYPICAL, 0.9)),
    (Typical(0.05), Rule(Passing.TYPICAL, 0.05)),
    (Typical(math.inf), Rule(Passing.TYPICAL, math.inf)),
    (TopK(0), Rule(Passing.TOP_K, 0)),
    (TopK(2), Rule(Passing.TOP_K, 2)),
    (TopK(math.inf), Rule(Passing.TOP_K, math.inf)),
]


class Batch:
    """Rows of `QUERIES` tokens of which each row has its own number, or of as many as it has with padding behind."""

    def __init__(self, logits, rows, counts, ragged, config=SMALL):
        device = logits.device
        self.logits, self.rows, self.counts = logits, rows, torch.tensor(counts, dtype=torch.int32, device=device)
        sizes = counts if ragged else [QUERIES] * len(rows)
        self.firsts = torch.tensor([sum(sizes[:row]) for row in range(len(rows))], dtype=torch.int32, device=device)
        owners = [row for row, size in enumerate(sizes) for _ in range(size)]
        self.owners = torch.tensor(owners + [-1] * (len(logits) - len(owners)), dtype=torch.int32, device=device)
        self.ragged = Ragged(self.firsts, self.owners) if ragged else None
        self.sample = Sample(len(logits), logits.shape[1], device, role=Role.TARGET, config=config)
        generator = torch.Generator().manual_seed(9)
        self.seeds = torch.randint(-(1 << 62), 1 << 62, (len(rows),), generator=generator).to(device)
        self.positions = torch.arange(len(logits), device=device) * 7
        self.own = self.owners.clamp_min(0).long()
        self.laws = right_law(logits.float(), settings_of([rows[row] for row in self.own.tolist()], device))
        ranks = torch.randint(0, 6, (len(logits),), generator=generator).to(device)
        order = logits.float().sort(dim=1, descending=True, stable=True).indices
        self.ids = torch.zeros(len(logits), dtype=torch.int64, device=device)
        self.ids[1:] = order.gather(1, ranks[:, None])[:-1, 0]

    def relaxed(self, rule):
        """(tokens, which were let pass) of the device."""
        each = settings_of([self.rows[row] for row in self.own.tolist()], self.logits.device)
        own = settings_of(self.rows, self.logits.device) if self.ragged else each
        seeds = self.seeds if self.ragged else self.seeds[self.own]
        owners = self.ragged.owners if self.ragged else None
        picks = self.sample(self.logits, device_settings(own), seeds, self.positions, ahead=1, owners=owners)
        self.sample.gathered.fill_(-7)
        fed = Fed(self.ids, self.positions, self.positions, self.counts, self.logits, self.counts)
        loose = torch.full((len(self.logits),), 5, dtype=torch.int32, device=self.logits.device)
        relax(self.sample, self.logits, device_settings(own), fed, rule, loose, ragged=self.ragged)
        return picks.tokens.tolist(), loose.tolist()

    def right(self, rule):
        """The same by the rule's own definition."""
        picks = pick(self.laws, self.seeds[self.own], self.positions + 1, Role.TARGET)
        passes, tokens, loose = rule.passes(self.laws, self.ids.roll(-1)), picks.tolist(), [0] * len(picks)
        chances = self.laws.logp_of(self.ids.roll(-1)).exp()
        for row, count in enumerate(self.counts.tolist()):
            for node in range(count - 1):
                at = int(self.firsts[row]) + node
                drafted = int(self.ids[at + 1])
                if tokens[at] != drafted and passes[at] and chances[at] > 0:
                    tokens[at], loose[at] = drafted, 1
        return tokens, loose


def batch(device, ragged, scale=1.0, vocab=160, dtype=torch.float32, config=SMALL, rows=SETTINGS):
    counts = [(1 + row) % (QUERIES + 1) for row in range(len(rows))]
    count = sum(counts) + 3 if ragged else QUERIES * len(rows)
    return Batch(draw(count, vocab, device, scale).to(dtype), rows, counts, ragged, config)


@pytest.mark.parametrize(("ragged", "scale"), [(False, 0.3), (True, 2.0)])
@pytest.mark.parametrize(("right", "rule"), RULES)
def test_drafts_pass_as_the_rule_says(device, ragged, scale, right, rule):
    made = batch(device, ragged, scale)
    assert made.relaxed(rule) == made.right(right)


@pytest.mark.parametrize(("right", "rule"), [RULES[0], RULES[5]])
def test_bfloat16_logits_full_of_ties(device, right, rule):
    made = batch(device, False, 0.5, dtype=torch.bfloat16)
    assert made.relaxed(rule) == made.right(right)


@pytest.mark.parametrize(("right", "rule"), [RULES[2], RULES[5]])
def test_the_vocabulary_in_several_tiles(device, right, rule):
    made = batch(device, True, 0.5, config=replace(SMALL, tile=64, wide=64))
    assert made.relaxed(rule) == made.right(right)


def test_some_drafts_pass_and_some_do_not(device):
    """So that the tests above compare something; a strict rule lets none pass."""
    made = batch(device, False, scale=3.0, rows=SETTINGS[1:7])
    loose = {rule: sum(made.relaxed(rule)[1]) for _, rule in RULES}
    assert loose[Rule(Passing.TYPICAL, math.inf)] == loose[Rule(Passing.TOP_K, 0)] == 0
    assert 0 < loose[Rule(Passing.TOP_K, 2)] < loose[Rule(Passing.TOP_K, math.inf)]
    assert 0 < loose[Rule(Passing.TYPICAL, 0.9)] < loose[Rule(Passing.TYPICAL, 0.05)]


def test_a_greedy_row_is_never_relaxed(device):
    made = batch(device, False, rows=[(1.0, 1, math.inf, 0.0)] * 3)
    assert sum(made.relaxed(Rule(Passing.TYPICAL, 0.01))[1]) == 0


def test_a_law_of_which_nothing_is_cut(device):
    made = batch(device, True, rows=[(0.7, OFF, math.inf, 0.0)] * 4)
    for right, rule in RULES:
        assert made.relaxed(rule) == made.right(right)
