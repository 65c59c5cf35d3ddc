"""A tiny Markov target with a draft of its own: the first two tokens of many independent draws, under any rule.

The next token's logits depend on the last token. Every draw goes on until it has two tokens: one round, and a second
one where the first gave one token only. The joint law of the two is worked out here in plain Python, independently of
the sampler.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

import torch

from glimpse import acceptance
from glimpse.acceptance import Acceptance, NodeNoise
from glimpse.acceptance.rule import Accepted
from glimpse.drafting.drafter import Draft
from glimpse.sampling import Laws, Nodes, Sampler, SamplingParams, draft_salt, pick

VOCAB = 8
PROMPT = [1, 6, 6]
TARGET = [[1.1 * math.sin(1.7 * (3 * last + 5 * token + 1)) + 0.3 * (token % 3) for token in range(VOCAB)]
          for last in range(VOCAB)]  # fmt: skip
DRAFT = [[score + 0.9 * math.cos(2.3 * (last + 4 * token)) for token, score in enumerate(row)]
         for last, row in enumerate(TARGET)]  # fmt: skip
OPTIONS = {
    "none": {},
    "temperature": {"temperature": 0.6},
    "top-k": {"top_k": 3},
    "top-p": {"top_p": 0.7},
    "min-p": {"min_p": 0.3},
    "repetition penalty": {"repetition_penalty": 1.5},
    "frequency and presence": {"frequency_penalty": 0.9, "presence_penalty": 0.4},
    "bias": {"logit_bias": {2: 1.5, 0: -1.0}},
    "suppressed": {"suppress_tokens": [3, 5]},
    "bad words": {"bad_words": [[6, 2], [4], [6, 6, 0]]},
    "no early end": {"min_tokens": 1, "stop_token_ids": [0, 7]},
    "all": {
        "temperature": 0.8, "top_k": 6, "top_p": 0.92, "min_p": 0.05, "repetition_penalty": 1.2,
        "frequency_penalty": 0.4, "presence_penalty": -0.3, "logit_bias": {2: 0.7}, "suppress_tokens": [3],
    },
}  # fmt: skip
CHAIN = [-1, 0, 1]
TREE = [-1, -1, 0, 1]
WIDE = [*[-1] * VOCAB, *range(VOCAB)]
KINDS = {"own law": CHAIN, "copied": CHAIN, "always wrong": CHAIN, "tree": TREE, "wrong tree": TREE, "wide tree": WIDE}


def law_by_hand(logits, prompt, output, options: dict) -> list[float]:
    """The law of the next token in the documented order of options, in plain Python."""
    rep, bias = options.get("repetition_penalty", 1.0), options.get("logit_bias", {})
    scores = []
    for token, score in enumerate(logits):
        if token in prompt or token in output:
            score = score / rep if score > 0 else score * rep
        score -= options.get("frequency_penalty", 0) * output.count(token)
        score -= options.get("presence_penalty", 0) * (token in output)
        gone = token in options.get("suppress_tokens", ()) or _ends_wrongly([*prompt, *output, token], output, options)
        scores.append(-math.inf if gone else score + bias.get(token, 0.0))
    weights = [math.exp((score - max(scores)) / options.get("temperature", 1.0)) for score in scores]
    ranked = sorted((token for token in range(len(weights)) if weights[token] > 0), key=lambda token: -weights[token])
    ranked = [token for token in ranked if weights[token] >= options.get("min_p", 0.0)][: options.get("top_k")]
    reached = list(accumulate(weights[token] for token in ranked))
    enough = next((i for i, mass in enumerate(reached) if mass >= options.get("top_p", 1.0) * reached[-1]), len(ranked))
    kept = ranked[: enough + 1]
    mass = sum(weights[token] for token in kept)
    return [weights[token] / mass if token in kept else 0.0 for token in range(len(weights))]


def _ends_wrongly(text: list[int], output: list[int], options: dict) -> bool:
    """Whether the text's last token completes a bad word, or is an end before min_tokens."""
    early = len(output) < options.get("min_tokens", 0) and text[-1] in options.get("stop_token_ids", ())
    return early or any(text[-len(word) :] == word for word in options.get("bad_words", ()))


def joint_by_hand(options: dict) -> list[float]:
    """The law of the first two tokens, row after row."""
    first = law_by_hand(TARGET[PROMPT[-1]], PROMPT, [], options)
    return [p * q for token, p in enumerate(first) for q in law_by_hand(TARGET[token], PROMPT, [token], options)]


@dataclass(frozen=True)
class Tilted:
    """A rule with a fault: of the draws whose first token is `seldom`, a share gets `often` in its place."""

    rule: Acceptance
    seldom: int
    often: int
    share: float

    def __getattr__(self, name: str) -> object:
        return getattr(self.rule, name)

    def accept(self, draft: Draft, laws: Laws, noise: NodeNoise) -> Accepted:
        """What the rule says, with the fault."""
        right = self.rule.accept(draft, laws, noise)
        hit = torch.rand(len(right.counts), generator=torch.Generator().manual_seed(0)) < self.share
        texts = [
            [self.often] if struck and text[0] == self.seldom else text
            for text, struck in zip(right.token_lists(), hit.tolist(), strict=True)
        ]
        return Accepted.of([range(len(text) - 1) for text in texts], texts, right.path.device)


def tilted(toy: Toy, bias: float, options: dict) -> Toy:
    """The toy with a rule that moves `bias` of probability from the likeliest first token to the next."""
    law = law_by_hand(TARGET[PROMPT[-1]], PROMPT, [], options)
    often, seldom = sorted(range(VOCAB), key=lambda token: law[token])[-2:]
    toy.rule = Tilted(toy.rule, seldom, often, bias / law[seldom])
    return toy


class Toy:
    """One decoding round of many independent draws at once; slot 0 has no output yet, slot 1 + t the output t."""

    def __init__(self, rule: str, kind: str, options: dict) -> None:
        self.rule, self.kind, self.parents = acceptance.resolve(rule), kind, KINDS[kind]
        self.sampler = Sampler(1 + VOCAB, VOCAB)
        resolved = SamplingParams(**options).resolve({})
        for slot in range(1 + VOCAB):
            self.sampler.admit(slot, resolved, PROMPT, ())
            self.sampler.commit(slot, [] if slot == 0 else [slot - 1])

    def emitted(self, slot: int, seeds: torch.Tensor) -> list[list[int]]:
        """What one round gives each draw that stands at `slot`."""
        draft = self._draft(slot, seeds)
        rows, size = len(seeds), len(self.parents)
        nodes = self._nodes(slot, rows, draft)
        last = self._last(slot)
        before = [token for row in draft.tokens.view(rows, size).tolist() for token in (last, *row)]
        laws = self.sampler.laws(torch.tensor(TARGET)[before], nodes)
        return self.rule.accept(draft, laws, NodeNoise(seeds.repeat_interleave(size + 1), nodes.position)).token_lists()

    def _nodes(self, slot: int, rows: int, draft: Draft) -> Nodes:
        length, outputs = self._lengths(slot)
        return Nodes.verifying([slot] * rows, [length] * rows, [outputs] * rows, draft.tokens.tolist(),
                               draft.parents.tolist(), draft.offsets)  # fmt: skip

    def _draft(self, slot: int, seeds: torch.Tensor) -> Draft:
        rows, size, law = len(seeds), len(self.parents), None
        if self.kind == "own law":
            tokens, law = self._sampled(slot, seeds, size)
        else:
            tokens = torch.tensor(self._fixed(slot)).repeat(rows)
        n = rows * size
        return Draft(tokens, torch.tensor(self.parents).repeat(rows), tuple(range(0, n + 1, size)), torch.ones(n),
                     torch.zeros(n, dtype=torch.uint8), law)  # fmt: skip

    def _fixed(self, slot: int) -> list[int]:
        """Proposals without a law: the draft model's best or the target's worst tokens after each node."""
        chosen: list[int] = []
        for node, parent in enumerate(self.parents):
            table = TARGET if self._wrong else DRAFT
            scores = table[chosen[parent] if parent >= 0 else self._last(slot)]
            ranked = sorted(range(VOCAB), key=lambda token: scores[token], reverse=not self._wrong)
            chosen.append(ranked[self.parents[:node].count(parent)])
        return chosen

    def _sampled(self, slot: int, seeds: torch.Tensor, size: int) -> tuple[torch.Tensor, Laws | None]:
        """Drawn from the draft model under the same options, and the laws they were drawn from."""
        length, outputs = self._lengths(slot)
        role, rows = self.rule.draft_role, len(seeds)
        chains: list[list[int]] = [[] for _ in range(rows)]
        laws = []
        for _ in range(size):
            nodes = Nodes.drafting([slot] * rows, [length] * rows, [outputs] * rows, chains)
            last = [chain[-1] if chain else self._last(slot) for chain in chains]
            law = self.sampler.laws(torch.tensor(DRAFT)[last], nodes)
            drawn = pick(law, seeds, nodes.position, role, draft_salt(role, torch.full((rows,), length)))
            chains = [[*chain, token] for chain, token in zip(chains, drawn.tolist(), strict=True)]
            laws.append(law)
        order = torch.arange(rows * size).view(size, rows).t().flatten()
        together = Laws.cat(laws).select(order) if self.rule.needs_law else None
        return torch.tensor(chains).flatten(), together

    @property
    def _wrong(self) -> bool:
        return "wrong" in self.kind

    @staticmethod
    def _last(slot: int) -> int:
        return PROMPT[-1] if slot == 0 else slot - 1

    @staticmethod
    def _lengths(slot: int) -> tuple[int, int]:
        return len(PROMPT) + (slot > 0), int(slot > 0)


def seeds_of(cell: str, draws: int) -> torch.Tensor:
    """Other seeds for every cell, so that no two tests repeat one another's draws."""
    return torch.arange(draws) + (zlib.crc32(cell.encode()) << 20)


def pairs(toy: Toy, seeds: torch.Tensor) -> Counter[tuple[int, int]]:
    """The first two tokens of every draw."""
    texts = toy.emitted(0, seeds)
    for token in range(VOCAB):
        short = [index for index, text in enumerate(texts) if text == [token]]
        if short:
            for index, more in zip(short, toy.emitted(1 + token, seeds[short]), strict=True):
                texts[index] = [token, *more]
    return Counter((text[0], text[1]) for text in texts)
