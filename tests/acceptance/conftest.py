"""Drafts from lists, and a toy model whose logits are a pure function of the text."""

from itertools import accumulate

import pytest
import torch

from glimpse import acceptance
from glimpse.acceptance import NodeNoise
from glimpse.drafting.drafter import Draft
from glimpse.sampling import Nodes, Role, Sampler, SamplingParams, draft_salt, pick


def draft_of(tokens, parents=None, law=None):
    """A Draft from one list of tokens a row; chains unless `parents` says otherwise."""
    parents = [list(range(-1, len(row) - 1)) for row in tokens] if parents is None else parents
    flat, up = [t for row in tokens for t in row], [p for row in parents for p in row]
    n = len(flat)
    offsets = tuple(accumulate((len(row) for row in tokens), initial=0))
    ints = torch.tensor(flat, dtype=torch.int64), torch.tensor(up, dtype=torch.int64)
    return Draft(*ints, offsets, torch.ones(n), torch.zeros(n, dtype=torch.uint8), law)


class Toy:
    """Logits from the last two tokens of a text: another random row for every pair, the draft's a little off."""

    def __init__(self, vocab=23, seed=0, noise=1.0):
        generator = torch.Generator().manual_seed(seed)
        self.vocab = vocab
        self.table = torch.randn(vocab + 1, vocab + 1, vocab, generator=generator) * 2
        self.off = self.table + torch.randn(self.table.shape, generator=generator) * noise

    def logits(self, texts, *, draft=False):
        pairs = [[self.vocab, self.vocab, *text][-2:] for text in texts]
        first, second = torch.tensor(pairs).unbind(1)
        return (self.off if draft else self.table)[first, second]


class Decoding:
    """One request through the rooms under test: plain, or in rounds of drafts."""

    def __init__(self, toy, prompt, **values):
        self.toy, self.prompt, self.text = toy, list(prompt), list(prompt)
        self.sampler = Sampler(1, toy.vocab)
        self.sampler.admit(0, SamplingParams(**values).resolve({}), prompt, [0])

    def _at(self):
        return [0], [len(self.text)], [len(self.text) - len(self.prompt)]

    def _commit(self, tokens):
        self.sampler.commit(0, tokens)
        self.text += tokens

    def plain(self, count):
        """`count` tokens, one at a time."""
        for _ in range(count):
            nodes = Nodes.plain(*self._at())
            laws = self.sampler.laws(self.toy.logits([self.text]), nodes)
            self._commit(pick(laws, self.sampler.seeds_of(nodes), nodes.position, Role.TARGET).tolist())
        return self.text[len(self.prompt) :]

    def self_draft(self, length, role):
        """A chain of `length` tokens drawn from the toy's draft logits, and their laws."""
        chain, parts = [], []
        for _ in range(length):
            nodes = Nodes.drafting(*self._at(), [chain])
            laws = self.sampler.laws(self.toy.logits([self.text + chain], draft=True), nodes)
            salt = draft_salt(role, torch.tensor([len(self.text)]))
            chain = chain + pick(laws, self.sampler.seeds_of(nodes), nodes.position, role, salt).tolist()
            parts.append(laws)
        return draft_of([chain], law=type(parts[0]).cat(parts) if parts else None)

    def round(self, rule, draft):
        """Verifies one draft and commits what was accepted, returning the accepted path."""
        tokens, parents = draft.tokens.tolist(), draft.parents.tolist()
        nodes = Nodes.verifying(*self._at(), tokens, parents, draft.offsets)
        texts = [self.text + list(nodes.ancestors(node))[::-1] for node in range(len(nodes))]
        laws = self.sampler.laws(self.toy.logits(texts), nodes)
        noise = NodeNoise(self.sampler.seeds_of(nodes), nodes.position)
        accepted = rule.accept(draft, laws, noise)
        self._commit(accepted.token_lists()[0])
        return accepted.paths()[0]


@pytest.fixture
def make_draft():
    return draft_of


@pytest.fixture
def toy():
    return Toy()


@pytest.fixture
def agreeing_toy():
    """A toy whose draft logits are the target's."""
    return Toy(noise=0.0)


@pytest.fixture
def decoding():
    return Decoding


@pytest.fixture(params=["coupled", "matched", "rejection"])
def rule(request):
    return acceptance.resolve(request.param)
