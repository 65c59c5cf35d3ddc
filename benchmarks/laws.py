"""Do the emitted tokens follow the target's law? Chi-square over every rule, kind of draft and set of options.

The joint law of two tokens of a tiny model (`benchmarks.laws_toy`), and the vectors V1 to V4 of the case book. Power:
the same test of a rule with a bias of 0.02 put in, which it has to refuse. Whole texts of the model, plain against
speculative (`benchmarks.laws_texts`).
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from itertools import product
from pathlib import Path

import torch

from benchmarks.laws_texts import ARMS, least_p, likeliest, texts
from benchmarks.laws_toy import KINDS, OPTIONS, VOCAB, Toy, joint_by_hand, pairs, seeds_of, tilted
from glimpse import acceptance
from glimpse.acceptance import NodeNoise
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import chi_square
from glimpse.bench.texts import manual
from glimpse.drafting.drafter import Draft
from glimpse.sampling import Laws, Nodes, Role, Sampler, SamplingParams, pick

LEVEL = 1e-4
PROMPT_TOKENS = 120
BIAS = 0.02
"""The least bias of one token's probability that the tests must see."""


def grid_cell(rule: str, kind: str, options: str, draws: int) -> dict:
    counts = pairs(Toy(rule, kind, OPTIONS[options]), seeds_of(f"{rule} {kind} {options}", draws))
    test = chi_square([counts[pair] for pair in product(range(VOCAB), repeat=2)], joint_by_hand(OPTIONS[options]))
    return {"rule": rule, "draft": kind, "options": options, "draws": draws, "statistic": finite(test.statistic),
            "freedom": test.freedom, "p": test.p_value}  # fmt: skip


def power_cell(rule: str, kind: str, options: str, draws: int) -> dict:
    """The same with a bias of `BIAS`, which the test must see."""
    toy = tilted(Toy(rule, kind, OPTIONS[options]), BIAS, OPTIONS[options])
    counts = pairs(toy, seeds_of(f"biased {rule} {kind} {options}", draws))
    test = chi_square([counts[pair] for pair in product(range(VOCAB), repeat=2)], joint_by_hand(OPTIONS[options]))
    return {"rule": rule, "draft": kind, "options": options, "draws": draws, "bias": BIAS, "p": test.p_value}


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


def text_cell(bench: Bench, name: str) -> dict:
    """Texts of one arm against plain ones with other seeds."""
    count, llm = bench.settings["texts"], bench.llm
    prompt = llm.tokenizer.encode(manual(llm.tokenizer, PROMPT_TOKENS))
    allowed = likeliest(llm, prompt)
    right = bench.cell("texts, plain", lambda: {"texts": list(map(list, texts(llm, prompt, allowed, count, 1)))})
    plain = [tuple(text) for text in right["texts"]]

    def measure() -> dict:
        arm = llm.variant(**{"pacer": "fixed", "draft_tokens": 3} | ARMS[name])
        return {"arm": name, "count": count, "p": least_p(plain, texts(arm, prompt, allowed, count, 1_000_003))}

    return bench.cell(f"texts, {name}", measure)


def body(bench: Bench) -> Findings:
    settings = bench.settings
    grid = [
        bench.cell(f"{rule}, {kind}, {options}", lambda c=(rule, kind, options): grid_cell(*c, settings["draws"]))
        for rule, kind, options in product(settings["rules"], KINDS, settings["options"])
        if "tree" not in kind or acceptance.resolve(rule).trees
    ]
    vectors = [
        bench.cell(f"{rule}, {name}", lambda c=(rule, name): vector_cell(*c, settings["draws"]))
        for rule, name in product(settings["rules"], VECTORS)
    ]
    written = [bench.cell(f"{rule}, V3", lambda rule=rule: v3_cell(rule))["text"] for rule in settings["rules"]]
    biased = [
        bench.cell(f"biased {rule}, {options}", lambda c=(rule, "copied", options): power_cell(*c, settings["draws"]))
        for rule, options in product(settings["rules"], settings["options"])
    ]
    unseen = sum(cell["p"] >= LEVEL for cell in biased)
    tests = [*grid, *vectors]
    samples = [text_cell(bench, name) for name in ARMS]
    refused = sum(cell["p"] < LEVEL for cell in tests)
    rows = [[rule, *spread([cell["p"] for cell in tests if cell["rule"] == rule])] for rule in settings["rules"]]
    return Findings(
        [
            Target(f"emitted laws that chi-square refuses at p = {LEVEL:g}", "== 0", refused),
            Target(f"laws biased by {BIAS:g} that chi-square does not refuse", UNSEEN[bench.options.quick], unseen),
            Target("texts that two samples tell from plain ones", "== 0", sum(cell["p"] < LEVEL for cell in samples)),
            Target(
                "rules that do not write A B A B on vector V3", "== 0", sum(text != [0, 1, 0, 1] for text in written)
            ),
        ],
        [Table("Chi-square of emitted laws", ("rule", "tests", "least p", "tests with p < 0.1"), rows)],
    )


UNSEEN = {False: "== 0", True: ">= 0"}
"""The few draws of a smoke run cannot see so small a bias."""


def spread(p_values: list[float]) -> list[str]:
    return [f"{len(p_values)}", f"{min(p_values):.2g}", f"{sum(p < 0.1 for p in p_values)}"]


SUITE = Suite(
    name="laws",
    summary=__doc__.splitlines()[0],
    settings={
        "draws": 40_000,
        "rules": ["coupled", "matched", "rejection"],
        "options": list(OPTIONS),
        "level": LEVEL,
        "texts": 1000,
    },
    quick={"draws": 500, "texts": 30, "options": ["none", "all"]},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
