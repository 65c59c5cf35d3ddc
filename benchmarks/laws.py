"""Do the emitted tokens follow the target's law? Chi-square over every rule, kind of draft and set of options.

A tiny Markov target (the next token's logits depend on the last token) with a draft model of its own. Every draw goes
on until it has two tokens: one round, and a second one where the first gave one token only. The joint law of the two is
worked out here in plain Python, independently of the sampler, and tested; so are the vectors V1 to V4 of the case book.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections import Counter
from itertools import accumulate, product
from pathlib import Path

import torch

from glimpse import acceptance
from glimpse.acceptance import NodeNoise
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import chi_square
from glimpse.drafting.drafter import Draft
from glimpse.sampling import Laws, Nodes, Role, Sampler, SamplingParams, draft_salt, pick

LEVEL = 1e-4
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
    "all": {
        "temperature": 0.8, "top_k": 6, "top_p": 0.92, "min_p": 0.05, "repetition_penalty": 1.2,
        "frequency_penalty": 0.4, "presence_penalty": -0.3, "logit_bias": {2: 0.7}, "suppress_tokens": [3],
    },
}  # fmt: skip
CHAIN = [-1, 0, 1]
TREE = [-1, -1, 0, 1]
KINDS = {"own law": CHAIN, "copied": CHAIN, "always wrong": CHAIN, "tree": TREE}


def law_by_hand(logits, prompt, output, options: dict) -> list[float]:
    """The law of the next token in the documented order of options, in plain Python."""
    rep, bias = options.get("repetition_penalty", 1.0), options.get("logit_bias", {})
    scores = []
    for token, score in enumerate(logits):
        if token in prompt or token in output:
            score = score / rep if score > 0 else score * rep
        score -= options.get("frequency_penalty", 0) * output.count(token)
        score -= options.get("presence_penalty", 0) * (token in output)
        scores.append(score + bias.get(token, 0.0) - (math.inf if token in options.get("suppress_tokens", ()) else 0))
    weights = [math.exp((score - max(scores)) / options.get("temperature", 1.0)) for score in scores]
    ranked = sorted((token for token in range(len(weights)) if weights[token] > 0), key=lambda token: -weights[token])
    ranked = [token for token in ranked if weights[token] >= options.get("min_p", 0.0)][: options.get("top_k")]
    reached = list(accumulate(weights[token] for token in ranked))
    enough = next((i for i, mass in enumerate(reached) if mass >= options.get("top_p", 1.0) * reached[-1]), len(ranked))
    kept = ranked[: enough + 1]
    mass = sum(weights[token] for token in kept)
    return [weights[token] / mass if token in kept else 0.0 for token in range(len(weights))]


def joint_by_hand(options: dict) -> list[float]:
    """The law of the first two tokens, row after row."""
    first = law_by_hand(TARGET[PROMPT[-1]], PROMPT, [], options)
    return [p * q for token, p in enumerate(first) for q in law_by_hand(TARGET[token], PROMPT, [token], options)]


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
            table = TARGET if self.kind == "always wrong" else DRAFT
            scores = table[chosen[parent] if parent >= 0 else self._last(slot)]
            ranked = sorted(range(VOCAB), key=lambda token: scores[token], reverse=self.kind != "always wrong")
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


def grid_cell(rule: str, kind: str, options: str, draws: int) -> dict:
    counts = pairs(Toy(rule, kind, OPTIONS[options]), seeds_of(f"{rule} {kind} {options}", draws))
    test = chi_square([counts[pair] for pair in product(range(VOCAB), repeat=2)], joint_by_hand(OPTIONS[options]))
    return {"rule": rule, "draft": kind, "options": options, "draws": draws, "statistic": finite(test.statistic),
            "freedom": test.freedom, "p": test.p_value}  # fmt: skip


def finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


VECTORS = {
    "V1": {"p": [0.5, 0.3, 0.2], "draft": [0, 0, 1]},
    "V2": {"p": [0.4, 0.3, 0.2, 0.1], "draft": [0, 0, 3 / 7, 4 / 7]},
    "V4": {
        "p": [0.60, 0.30, 0.08, 0.02],
        "draft": [0, 0, 1, 0],
        "options": {"min_p": 0.2},
        "right": [2 / 3, 1 / 3, 0, 0],
    },
}


def vector_cell(rule: str, name: str, draws: int) -> dict:
    """One drafted token; the draft has a law unless it is always the same token."""
    vector, acceptor, seeds = VECTORS[name], acceptance.resolve(rule), seeds_of(f"{rule} {name}", draws)
    q = Laws.dense(torch.tensor(vector["draft"]).log().expand(draws, -1))
    tokens = pick(q, seeds, torch.ones(draws, dtype=torch.int64), Role.DRAFT, 1)
    sure = max(vector["draft"]) == 1
    draft = Draft(tokens, torch.full((draws,), -1), tuple(range(draws + 1)), torch.ones(draws),
                  torch.zeros(draws, dtype=torch.uint8), None if sure else q)  # fmt: skip
    sampler = Sampler(1, len(vector["p"]))
    sampler.admit(0, SamplingParams(**vector.get("options", {})).resolve({}), [0], ())
    nodes = Nodes.verifying([0] * draws, [1] * draws, [0] * draws, tokens.tolist(), [-1] * draws, draft.offsets)
    laws = sampler.laws(torch.tensor(vector["p"]).log().expand(2 * draws, -1), nodes)
    texts = acceptor.accept(draft, laws, NodeNoise(seeds.repeat_interleave(2), nodes.position)).token_lists()
    right = vector.get("right", vector["p"])
    counts = Counter(text[0] for text in texts)
    test = chi_square([counts[token] for token in range(len(right))], right)
    return {"rule": rule, "vector": name, "draws": draws, "statistic": finite(test.statistic), "freedom": test.freedom,
            "p": test.p_value, "shares": [counts[token] / draws for token in range(len(right))]}  # fmt: skip


def v3_cell(rule: str) -> dict:
    """Greedy with a frequency penalty of 0.5, A = 2.0 and B = 1.9: a draft of four A must come out as A B A B."""
    logits = torch.tensor([[2.0, 1.9, 0.0, -1.0]])
    sampler = Sampler(1, 4)
    sampler.admit(0, SamplingParams(temperature=0, frequency_penalty=0.5).resolve({}), [3], ())
    text: list[int] = []
    while len(text) < 4:
        draft = Draft(torch.zeros(4, dtype=torch.int64), torch.tensor([-1, 0, 1, 2]), (0, 4), torch.ones(4),
                      torch.zeros(4, dtype=torch.uint8))  # fmt: skip
        nodes = Nodes.verifying([0], [1 + len(text)], [len(text)], [0] * 4, [-1, 0, 1, 2], [0, 4])
        laws = sampler.laws(logits.expand(5, -1), nodes)
        new = acceptance.resolve(rule).accept(draft, laws, NodeNoise(torch.zeros(5, dtype=torch.int64), nodes.position))
        sampler.commit(0, new.token_lists()[0])
        text += new.token_lists()[0]
    return {"rule": rule, "vector": "V3", "text": text[:4]}


def body(bench: Bench) -> Findings:
    settings = bench.settings
    grid = [
        bench.cell(f"{rule}, {kind}, {options}", lambda c=(rule, kind, options): grid_cell(*c, settings["draws"]))
        for rule, kind, options in product(settings["rules"], KINDS, settings["options"])
        if kind != "tree" or acceptance.resolve(rule).trees
    ]
    vectors = [
        bench.cell(f"{rule}, {name}", lambda c=(rule, name): vector_cell(*c, settings["draws"]))
        for rule, name in product(settings["rules"], VECTORS)
    ]
    texts = [bench.cell(f"{rule}, V3", lambda rule=rule: v3_cell(rule))["text"] for rule in settings["rules"]]
    tests = [*grid, *vectors]
    refused = sum(cell["p"] < LEVEL for cell in tests)
    rows = [[rule, *spread([cell["p"] for cell in tests if cell["rule"] == rule])] for rule in settings["rules"]]
    return Findings(
        [
            Target(f"emitted laws that chi-square refuses at p = {LEVEL:g}", "== 0", refused),
            Target("rules that do not write A B A B on vector V3", "== 0", sum(text != [0, 1, 0, 1] for text in texts)),
        ],
        [Table("Chi-square of emitted laws", ("rule", "tests", "least p", "tests with p < 0.1"), rows)],
    )


def spread(p_values: list[float]) -> list[str]:
    return [f"{len(p_values)}", f"{min(p_values):.2g}", f"{sum(p < 0.1 for p in p_values)}"]


SUITE = Suite(
    name="laws",
    summary=__doc__.splitlines()[0],
    settings={"draws": 40_000, "rules": ["coupled", "matched", "rejection"], "options": list(OPTIONS), "level": LEVEL},
    quick={"draws": 500, "options": ["none", "all"]},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
