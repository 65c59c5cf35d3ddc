"""Rounds after rounds: the joint law of whole sequences, with draft lengths that look at what was drafted.

A Markov model over three tokens writes three tokens, all draws at once. The pacer is legal but nosy: within a round it
stops after having seen a token and verifies all that it drafted; across rounds it remembers the last token it ever
drafted, accepted or not.
"""

import pytest
import torch

from glimpse import acceptance
from glimpse.acceptance import NodeNoise
from glimpse.drafting.drafter import Draft
from glimpse.sampling import Laws, Role, draft_salt, pick

P = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.3, 0.4]])
Q = torch.tensor([[0.2, 0.3, 0.5]] * 3)
START, LENGTH = 0, 3


class Draws:
    """Many independent requests, all decoded alike."""

    def __init__(self, rule, draws, salted=True):
        self.rule, self.salted = acceptance.resolve(rule), salted
        self.texts = [[START] for _ in range(draws)]
        self.memory = [0] * draws

    def _pick(self, law, rows, positions, role):
        committed = torch.tensor([len(self.texts[row]) for row in rows])
        salt = draft_salt(role, committed) if self.salted else 0
        return pick(law, torch.tensor(rows), positions, role, salt)

    def _drafts(self, rows):
        """Up to two tokens a row: none if the remembered token is 2, the second not after a 1."""
        drafts = {row: [] for row in rows}
        going = [row for row in rows if self.memory[row] != 2]
        for step in range(2):
            if not going:
                break
            last = torch.tensor([(self.texts[row] + drafts[row])[-1] for row in going])
            positions = torch.tensor([len(self.texts[row]) + step for row in going])
            tokens = self._pick(Laws.dense(Q[last].log()), going, positions, self.rule.draft_role).tolist()
            for row, token in zip(going, tokens, strict=True):
                drafts[row].append(token)
            going = [row for row in going if drafts[row][-1] != 1]
        for row in rows:
            self.memory[row] = drafts[row][-1] if drafts[row] else 0
        return drafts

    def round(self):
        """One round of every request that is not done."""
        rows = [row for row, text in enumerate(self.texts) if len(text) <= LENGTH]
        drafts = self._drafts(rows)
        tokens = [token for row in rows for token in drafts[row]]
        parents = [node - 1 for row in rows for node in range(len(drafts[row]))]
        offsets = [0]
        for row in rows:
            offsets.append(offsets[-1] + len(drafts[row]))
        before = [[self.texts[row][-1], *drafts[row]] for row in rows]
        target = Laws.dense(P[torch.tensor([last for path in before for last in path])].log())
        proposal = torch.tensor([last for path in before for last in path[:-1]], dtype=torch.int64)
        n = len(tokens)
        law = Laws.dense(Q[proposal].log()) if self.rule.needs_law else None
        ints = torch.tensor(tokens, dtype=torch.int64), torch.tensor(parents, dtype=torch.int64)
        draft = Draft(*ints, tuple(offsets), torch.ones(n), torch.zeros(n, dtype=torch.uint8), law)
        noise = NodeNoise(
            torch.tensor([row for row, path in zip(rows, before, strict=True) for _ in path]),
            torch.tensor([len(self.texts[row]) + i for row in rows for i in range(len(drafts[row]) + 1)]),
        )
        for row, new in zip(rows, self.rule.accept(draft, target, noise).token_lists(), strict=True):
            self.texts[row] += new

    def sequences(self):
        """The index of each request's first three tokens among the 27."""
        while any(len(text) <= LENGTH for text in self.texts):
            self.round()
        return [9 * text[1] + 3 * text[2] + text[3] for text in self.texts]


JOINT = [float(P[START, a] * P[a, b] * P[b, c]) for a in range(3) for b in range(3) for c in range(3)]


@pytest.mark.parametrize("rule", ["coupled", "matched", "rejection"])
def test_joint_law_of_three_tokens(rule, batch, fits):
    assert fits(Draws(rule, batch[0]).sequences(), JOINT)


def test_drafting_again_with_the_same_noise_is_caught(batch, fits):
    """Why DRAFT noise is salted: without it, a pacer that remembers thrown-away drafts biases the output."""
    assert not fits(Draws("rejection", batch[0], salted=False).sequences(), JOINT)


def test_coupled_sequences_are_those_of_plain_sampling():
    run = Draws("coupled", 500)
    got = run.sequences()
    plain = torch.full((500,), START)
    index = torch.zeros(500, dtype=torch.int64)
    for step in range(LENGTH):
        plain = pick(Laws.dense(P[plain].log()), torch.arange(500), torch.full((500,), 1 + step), Role.TARGET)
        index = 3 * index + plain
    assert got == index.tolist()
