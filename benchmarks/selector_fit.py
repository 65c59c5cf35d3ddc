"""Which constants of the Selector suit real text: the law of fast steps against the target's, along exact texts.

The paper (arXiv 2603.12038) leaves open the power a, the prior's g, b, e, h and who is a neighbour. One constant at a
time is changed from the default; every setting goes over the same texts, which plain decoding wrote, in fast and slow
steps. The budget is small, so that what is chosen matters. `none` has no prior, suppression or exclusivity: plain top-k
of the attention. Twelve settings over a few texts are a look, not a search: what is less than the spread over texts
apart is equal.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from statistics import mean

from glimpse import SamplingParams
from glimpse.bench.results import Table
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.tradeoff.emitted import kl, tv
from glimpse.bench.tradeoff.path import law_of, slowfast_laws
from glimpse.cache.recall import RecallBudget
from glimpse.cache.selector import Selector

ARMS = {
    "default": {},
    "none": {"most_prior": 0.0, "suppression": 0.0, "exclusivity": 0.0},
    "no prior": {"most_prior": 0.0},
    "no suppression": {"suppression": 0.0},
    "no exclusivity": {"exclusivity": 0.0},
    "a = 0.5": {"power": 0.5},
    "g = 1": {"key_norm": 1.0},
    "b = 2": {"age": 2.0},
    "h = 1": {"end": 1.0},
    "reach 2": {"reach": 2},
    "reach 4": {"reach": 4},
}


def prepare(bench: Bench) -> list[dict]:
    """Texts that plain decoding goes on with from passages."""
    settings = bench.settings
    passages = bench.passages(settings["context"], settings["texts"])
    params = SamplingParams(
        temperature=0.7, top_k=50, top_p=0.9, max_tokens=settings["tokens"], ignore_eos=True, seed=1
    )
    return [{"prompt": list(p.ids), "output": list(bench.llm.generate([list(p.ids)], params)[0].token_ids)}
            for p in passages]  # fmt: skip


def measure(bench: Bench, texts: list[dict], arm: str) -> dict:
    """Mean KL and TV of fast steps, by text; slow steps are left out."""
    settings, selector = bench.settings, Selector(**ARMS[arm])
    budget = RecallBudget(1e-9, settings["budget"], 4, settings["recent"])
    law = law_of(bench.llm, SamplingParams(temperature=0.7, top_k=50, top_p=0.9, seed=1).resolve({}))
    found = []
    for text in texts:
        laws = slowfast_laws(bench.llm, text["prompt"], text["output"], law, budget, selector=selector)
        fast = [place for place, slow in enumerate(laws.slow) if not slow]
        pairs = [(laws.target[place], laws.draft[place]) for place in fast]
        found.append({"kl": mean(kl(*pair) for pair in pairs), "tv": mean(tv(*pair) for pair in pairs),
                      "fast": len(fast)})  # fmt: skip
    return {"arm": arm, "selector": asdict(selector), "texts": found}


def body(bench: Bench) -> Findings:
    """One cell an arm."""
    texts = bench.cell("texts", lambda: {"texts": prepare(bench)})["texts"]
    cells = [bench.cell(arm, lambda arm=arm: measure(bench, texts, arm)) for arm in ARMS]
    rows = [
        [cell["arm"], f"{mean(text['tv'] for text in cell['texts']):.4f}",
         f"{mean(text['kl'] for text in cell['texts']):.4f}", " ".join(f"{text['tv']:.3f}" for text in cell["texts"])]
        for cell in cells
    ]  # fmt: skip
    return Findings([], [Table("Fast steps against the target's law", ("constants", "TV", "KL", "TV by text"), rows)])


SUITE = Suite(
    name="selector_fit",
    summary=__doc__.splitlines()[0],
    settings={"context": 300, "tokens": 24, "texts": 2, "budget": 84, "recent": 16},
    quick={"context": 120, "tokens": 6, "texts": 1, "budget": 40, "recent": 16},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
