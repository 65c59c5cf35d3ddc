"""Near ties, on logits made up so that it is known where a verify row picks otherwise."""

from __future__ import annotations

import pytest
import torch

from glimpse.bench.decode.ties import judge
from glimpse.sampling.noise import Role, gumbel

PROMPT, ROWS, VOCAB = 5, 2, 7


class Made:
    """Greedy picks of logits by position; in verify rows one token is better by `lifts[position]`."""

    def __init__(self, lifts):
        self.lifts, self.seeds = lifts, torch.arange(ROWS)

    def text(self, tokens):
        return torch.zeros(ROWS, PROMPT + tokens, dtype=torch.int64), torch.full((ROWS,), PROMPT)

    def step(self, queries, text, start):
        logits = torch.zeros(ROWS, queries, VOCAB)
        for row in range(ROWS):
            for node in range(queries):
                position = int(start[row]) + node
                logits[row, node, position % VOCAB] = 1.0
                if queries > 1:
                    logits[row, node, 6] += self.lifts.get(position, 0.0)
        return logits, logits.argmax(-1)


def test_differences_are_counted_with_their_margins():
    found = judge(Made({7: 1.25, 9: 0.5}), 1, 0.0, blocks=3)
    assert (found["positions"], found["differ"]) == (12, 2)
    assert found["margins"] == pytest.approx([1.0, 1.0])
    assert found["logits_differ_most"] == 1.25
    # Twice the 99th percentile, which lies in the two rows' 1.25.
    assert (found["limit"], found["limit_fixed"]) == (2.5, False)
    assert found["within"] == 2


@pytest.mark.parametrize(("move", "within"), [(0.25, 0), (0.625, 2)])
def test_a_limit_fixed_beforehand_does_not_follow_the_run(move, within):
    found = judge(Made({7: 1.25, 9: 0.5}), 1, 0.0, blocks=3, move=move)
    assert (found["limit"], found["limit_fixed"]) == (2 * move, True)
    assert found["within"] == within


def test_rows_that_agree_have_no_ties():
    found = judge(Made({}), 2, 0.0, blocks=2)
    assert (found["positions"], found["differ"], found["limit"], found["margins"]) == (12, 0, 0.0, [])


def test_a_sampled_margin_counts_the_noise_of_the_position():
    with torch.inference_mode():  # as the steps of a device are
        found = judge(Made({7: 1.25}), 1, 0.5, blocks=3)
    ids = torch.tensor([[0, 6]] * ROWS)
    noise = gumbel(torch.arange(ROWS), torch.full((ROWS,), 7), Role.TARGET, 0, ids)
    gap = (1.0 / 0.5 + noise[:, 0] - noise[:, 1]).abs()
    assert len(found["margins"]) == 2
    # The way to the boundary of top-p may be shorter than that to the other token.
    assert all(margin <= right + 1e-4 for margin, right in zip(found["margins"], gap.sort().values, strict=True))
