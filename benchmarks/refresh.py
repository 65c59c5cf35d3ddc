"""Acceptance by depth with and without a refresh layer, on real text? `--sweep`: which layer, and how sets are chosen.

A passage of a book is the prompt; its continuation is sampled by plain decoding. From every 16th of its positions each
arm drafts DEPTH tokens through the drafter's own protocol, fed with the text's own tokens, and a draft counts as
accepted where the pick under `coupled` noise is the text's. So every arm drafts after the same words, and one start
yields at once what a round would have (a draft survives as far as all before it were accepted) and whether the token at
each depth would be accepted if all before it were. Intervals are bootstrapped over starts (which lie 16 tokens apart),
differences paired.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import torch

from glimpse import LLM, SamplingParams
from glimpse.bench.held import Held, held, parts_of
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import bootstrap, distinct_share
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome
from glimpse.drafting.refresh import RefreshDrafter
from glimpse.drafting.sparse import WINDOW, SparseDrafter
from glimpse.engine.forward import forward
from glimpse.sampling.law import pick
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.noise import Role

DEPTH = 10
PARAMS = {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "seed": 11, "ignore_eos": True}
Arms = dict[str, SparseDrafter]


@dataclass(frozen=True, slots=True)
class Found:
    """What one arm drafted from one start."""

    right: list[int]
    """Which of DEPTH picks equal the text."""
    overlap: list[float]
    """Sum over tokens of min(draft's, target's probability): what `rejection` accepts on average; less noisy."""
    entropy: list[float]
    """Of the draft's law, in nats."""
    seconds: float
    """A draft step."""


class Starts:
    """Drafts of several arms from positions of one text, each judged by the text."""

    def __init__(self, text: Held, ids: Sequence[int], prompt: int, llm: LLM) -> None:
        parts = text.parts
        self._text, self._ids, self._parts, self._prompt = text, list(ids), parts, prompt
        self._slot = text._slot
        self._view = RowView(parts.rows, (self._slot,))
        (request,) = llm._requests([self._ids[:prompt]], SamplingParams(**PARAMS, max_tokens=1))
        parts.sampler.admit(self._slot, request.params, self._ids[:prompt], parts.eos_token_ids)

    def close(self) -> None:
        """Gives the sampler's row back."""
        self._parts.sampler.retire(self._slot)

    def judge(self, base: int, arms: Arms) -> dict[str, Found] | None:
        """What each arm drafts behind the token at position `base`; None where a near tie came out another way."""
        seen = self._text.forward(base - WINDOW, WINDOW, outputs=0, importance=WINDOW).importance[0]
        target, picked, _ = self._laws(base, self._text.forward(base, DEPTH).logits[0])
        if picked != self._ids[base + 1 : base + 1 + DEPTH]:
            return None
        return {name: self._draft(base, drafter, seen, target) for name, drafter in arms.items()}

    def _laws(self, base: int, logits: torch.Tensor) -> tuple[torch.Tensor, list[int], list[float]]:
        """After positions `base`, base + 1, ...: laws [DEPTH, vocab], picks with the text's noise, entropies."""
        lengths = range(base + 1, base + 1 + DEPTH)
        nodes = Nodes.plain([self._slot] * DEPTH, lengths, [length - self._prompt for length in lengths])
        sampler = self._parts.sampler
        laws = sampler.laws(logits, nodes)
        picks = pick(laws, sampler.seeds_of(nodes), nodes.position, Role.TARGET)
        return laws.to_dense().logp.exp(), picks.tolist(), [round(each, 3) for each in laws.entropy.tolist()]

    def _draft(self, base: int, drafter: SparseDrafter, seen: torch.Tensor | None, target: torch.Tensor) -> Found:
        rows, slot, parts = self._parts.rows, self._slot, self._parts
        rows.verified_len[slot], rows.committed_len[slot] = base, base + 1
        drafter.admit(self._view)
        drafter.absorb(self._view, [Outcome(slot, 0, 0, [], seen)])
        logits, begun = [], time.perf_counter()
        for depth in range(DEPTH):
            rows.draft_len[slot] = depth
            with torch.inference_mode():
                logits += forward(parts.decoder, parts.pool, rows, drafter.plan(self._view, [1])).logits
        seconds = (time.perf_counter() - begun) / DEPTH
        drafter.retire(self._view)
        rows.draft_len[slot], rows.committed_len[slot] = 0, len(self._ids)
        law, picked, entropy = self._laws(base, torch.cat(logits))
        wanted = self._ids[base + 1 : base + 1 + DEPTH]
        right = [int(one == other) for one, other in zip(picked, wanted, strict=True)]
        overlap = [round(share, 4) for share in torch.minimum(law, target).sum(-1).tolist()]
        return Found(right, overlap, entropy, seconds)


def arms_of(llm: LLM, budget: RecallBudget, chosen: dict[str, tuple[str, int | None]]) -> Arms:
    """`none` and one arm for each way of refreshing: name to (sets, layer)."""
    pool = parts_of(llm).pool
    refreshed = {name: RefreshDrafter(pool, budget, sets, layer) for name, (sets, layer) in chosen.items()}
    return {"none": SparseDrafter(pool, budget), **refreshed}


def passage_cell(llm: LLM, prompt: list[int], budget: float, chosen: dict, starts: int, facts: dict) -> dict:
    """All arms over one passage: its continuation is written once."""
    drafting = llm.variant(drafter="sparse", pacer="fixed", draft_tokens=DEPTH)
    with llm.pinned(prompt) as ids:
        tokens = WINDOW * starts + DEPTH + 1
        written = list(llm.generate([ids], SamplingParams(**PARAMS, max_tokens=tokens))[0].token_ids)
        with held(drafting, ids + written) as text:
            judge = Starts(text, ids + written, len(ids), llm)
            arms = arms_of(drafting, RecallBudget(share=budget), chosen)
            judged = [judge.judge(len(ids) + WINDOW * turn, arms) for turn in range(starts)]
            judge.close()
    found = [each for each in judged if each is not None]
    right = {name: [each[name].right for each in found] for name in arms}
    overlap = {name: [each[name].overlap for each in found] for name in arms}
    seconds = {name: median(each[name].seconds for each in found) for name in arms}
    entropy = [each["none"].entropy for each in found]
    facts = facts | {"distinct_4grams": distinct_share(written), "draft_step_s": seconds}
    return {**facts, "right": right, "overlap": overlap, "entropy": entropy}


def starts_of(cells: Sequence[dict], arm: str, kind: str = "right") -> list[list[list]]:
    """Each start as a group of its own."""
    return [[start] for cell in cells for start in cell[kind][arm]]


def at_depth(groups: Sequence[Sequence[list[int]]], depth: int = DEPTH) -> float:
    """The share of tokens at a depth that are accepted if all before them were, over all starts."""
    every = [start[depth - 1] for group in groups for start in group]
    return sum(every) / len(every)


def reached(groups: Sequence[Sequence[list[int]]], depth: int = DEPTH) -> float:
    """The share of starts whose first `depth` drafts are all accepted."""
    every = [all(start[:depth]) for group in groups for start in group]
    return sum(every) / len(every)


def given_before(groups: Sequence[Sequence[list[int]]], depth: int = DEPTH) -> float:
    """Of the starts whose drafts before `depth` are all accepted, the share that accepts that one too."""
    before = reached(groups, depth - 1) if depth > 1 else 1.0
    return reached(groups, depth) / before if before else 0.0


def accepted(groups: Sequence[Sequence[list[int]]]) -> float:
    """Mean accepted drafts of DEPTH."""
    return sum(reached(groups, depth) for depth in range(1, DEPTH + 1))


def differences(cells: Sequence[dict], arm: str, figure: Callable, kind: str = "right") -> tuple[float, float, float]:
    """An arm's figure less that of `none`, with the paired interval over starts."""
    pairs = list(zip(starts_of(cells, arm, kind), starts_of(cells, "none", kind), strict=True))

    def less(drawn: Sequence[tuple]) -> float:
        return figure([pair[0] for pair in drawn]) - figure([pair[1] for pair in drawn])

    return less(pairs), *bootstrap(pairs, less)


def row(cells: Sequence[dict], arm: str) -> list[str]:
    groups = starts_of(cells, arm)
    low, high = bootstrap(groups, at_depth)
    shown = [arm, f"{at_depth(groups, 1):.3f}", f"{at_depth(groups):.3f} ({low:.3f} to {high:.3f})"]
    shown += [f"{given_before(groups):.3f}", f"{reached(groups):.3f}", f"{accepted(groups):.2f}"]
    for figure, kind, form in ((at_depth, "right", ".3f"), (at_depth, "overlap", ".3f"), (accepted, "right", ".2f")):
        found = differences(cells, arm, figure, kind)
        shown.append("" if arm == "none" else "{:+{f}} ({:+{f}} to {:+{f}})".format(*found, f=form))
    step = median(cell["draft_step_s"][arm] for cell in cells)
    return [*shown, f"{1000 * step:.0f}"]


COLUMNS = ("refresh", "depth 1", "depth 10 (95% interval)", "depth 10, all before accepted", "all 10 accepted",
           "accepted of 10", "depth 10 less none", "overlap at depth 10 less none", "accepted less none",
           "draft step ms")  # fmt: skip


def measure(bench: Bench) -> list[dict]:
    """One cell a passage."""
    settings, cells = bench.settings, []
    for index in range(settings["passages"]):
        if not bench.known([f"passage {index}"]):
            passage = bench.passages(settings["prompt"], settings["passages"])[index]
            facts = {"book": passage.book, "start": passage.start, "digest": passage.digest}
            prompt, chosen = list(passage.ids), {name: tuple(how) for name, how in settings["arms"].items()}
            run = partial(passage_cell, bench.llm, prompt, settings["budget"], chosen, settings["starts"], facts)
            bench.cell(f"passage {index}", run)
        cells.append(bench.recorded(f"passage {index}"))
    return cells


def body(bench: Bench) -> Findings:
    cells, settings = measure(bench), bench.settings
    targets = []
    for arm in settings["arms"]:
        what = f"acceptance at depth 10 with refresh ({arm}) less without, points"
        targets.append(Target(what, ">= 0", 100 * differences(cells, arm, at_depth)[0]))
    title = (
        f"Acceptance at depth 10, T=0.7, top-k 50, top-p 0.9, {settings['prompt']:,} tokens of book, "
        f"budget {settings['budget']:.0%}, {settings['passages']} passages x {settings['starts']} starts"
    )
    return Findings(targets, [Table(title, COLUMNS, [row(cells, arm) for arm in ("none", *settings["arms"])])])


SUITE = Suite(
    name="refresh",
    summary=__doc__.splitlines()[0],
    settings={
        "prompt": 7000,
        "passages": 6,
        "starts": 12,
        "budget": 0.07,
        "arms": {"pages, layer 28": ["pages", 28], "pages, layer 22": ["pages", 22], "heads, layer 22": ["heads", 22]},
        "sampling": PARAMS,
    },
    quick={"prompt": 600, "passages": 2, "starts": 2, "arms": {"pages": ["pages", None], "heads": ["heads", None]}},
    body=body,
)
SWEEP = Suite(
    name="refresh_sweep",
    summary="Acceptance by refresh layer and way of choosing sets.",
    settings={
        "prompt": 7000,
        "passages": 4,
        "starts": 8,
        "budget": 0.07,
        "arms": {f"{sets} {layer}": [sets, layer] for sets in ("pages", "heads") for layer in (7, 15, 22, 27, 28, 29)},
        "sampling": PARAMS,
    },
    quick={"prompt": 600, "passages": 2, "starts": 2, "arms": {"pages": ["pages", None], "heads": ["heads", None]}},
    body=body,
)

if __name__ == "__main__":
    suite = SWEEP if "--sweep" in sys.argv else SUITE
    rest = [argument for argument in sys.argv[1:] if argument != "--sweep"]
    sys.exit(main(suite, Path(__file__).resolve().parents[1], rest))
