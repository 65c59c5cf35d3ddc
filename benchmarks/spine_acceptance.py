"""Tokens a verification of self-drafted spines with branches (`sparse+racer`), beside the same spines alone (`sparse`).

Passages of two books as prompts, spines of fixed length, the rule `coupled`; the text is the same under every arm. Arms
differ in where branches come from and in how many nodes a tree has. Intervals are bootstrapped over passages, both arms
of a difference on the same ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from glimpse import LLM, SamplingParams
from glimpse.bench.held import parts_of
from glimpse.bench.results import Table, Target
from glimpse.bench.runner import Bench, Findings, Suite, main
from glimpse.bench.stats import bootstrap, distinct_share
from glimpse.bench.texts import digest
from glimpse.drafting.spine.drafter import SparseRacerDrafter
from glimpse.drafting.spine.growing import Growth, Spine
from glimpse.drafting.tree import Source, Tree
from glimpse.engine.engine import Engine
from glimpse.errors import GlimpseError

GAMMA = 8
MODES = {
    "T=0.7": SamplingParams(temperature=0.7, top_k=50, top_p=0.9, seed=11, ignore_eos=True),
    "greedy": SamplingParams(temperature=0, ignore_eos=True),
}


class Recycled(SparseRacerDrafter):
    """Branches from the successor table instead of the runners-up, for comparison."""

    def _tree(self, rows, slot: int, depth: int) -> Tree:
        begin, count, state = int(rows.rows.committed_len[slot]), int(rows.rows.draft_len[slot]), self._states[slot]
        before, *tokens = rows.rows.tokens[slot, begin - 1 : begin + count].tolist()
        spine = state.spine(tokens)
        beside = []
        for last, token, chance in zip((before, *tokens), tokens, spine.chances, strict=False):
            others = [pair for pair in state.following(last) if pair[0] != token]
            mass = sum(pair[1] for pair in others)
            beside.append([(other, (1 - chance) * share / mass) for other, share in others])
        return Growth(self.budget, depth, state.following, self._sources).grow(Spine(tokens, spine.chances, beside))


def tree_arm(llm: LLM, nodes: int, sources: frozenset[Source], kind: type[SparseRacerDrafter]) -> LLM:
    """A spine of GAMMA tokens in a tree of exactly `nodes` nodes, where so many are likely enough."""
    arm = llm.variant(drafter="sparse+racer", pacer="fixed", draft_tokens=GAMMA)
    parts = parts_of(arm)
    arm._engine = Engine(replace(parts, drafter=kind(parts.pool, parts.budget, nodes, sources)), arm.options)
    return arm


BOTH, RUNNERS = frozenset({Source.RUNNER_UP, Source.LOGITS}), frozenset({Source.RUNNER_UP})
ARMS: dict[str, Callable[[LLM], LLM]] = {
    "sparse": lambda llm: llm.variant(drafter="sparse", pacer="fixed", draft_tokens=GAMMA),
    "runners-up and table, 16 nodes": partial(tree_arm, nodes=16, sources=BOTH, kind=SparseRacerDrafter),
    "runners-up and table, 32 nodes": partial(tree_arm, nodes=32, sources=BOTH, kind=SparseRacerDrafter),
    "runners-up alone, 16 nodes": partial(tree_arm, nodes=16, sources=RUNNERS, kind=SparseRacerDrafter),
    "table alone, 16 nodes": partial(tree_arm, nodes=16, sources=BOTH, kind=Recycled),
}
GREEDY = ("sparse", "runners-up and table, 16 nodes")
CELLS = [("T=0.7", arm) for arm in ARMS] + [("greedy", arm) for arm in GREEDY]


def run(arm: LLM, ids: list[int], mode: str, tokens: int) -> dict:
    given = {name: value for name, value in MODES[mode].as_dict().items() if value is not None}
    out = arm.generate([ids], SamplingParams(**given | {"max_tokens": tokens}))[0]
    spoken = out.speculation
    return {
        "rounds": spoken.rounds,
        "drafted": spoken.drafted,
        "accepted": spoken.accepted,
        "draft_steps": spoken.draft_steps,
        "plain_steps": spoken.plain_steps,
        "distinct_4grams": distinct_share(out.token_ids),
        "text": digest(out.token_ids),
    }


def measure(bench: Bench) -> dict[tuple[str, str], list[dict]]:
    """Cells by (mode, arm): one run a passage; a passage is read once for all of them."""
    settings, found, arms = bench.settings, {key: [] for key in CELLS}, {}
    for index in range(settings["measured"]):
        names = {(mode, arm): f"{index} {mode} {arm}" for mode, arm in CELLS}
        if not bench.known(names.values()):
            passage = bench.passages(settings["prompt"], settings["passages"])[index]
            with bench.llm.pinned(passage.ids) as ids:
                for (mode, arm), name in names.items():
                    if arm not in arms:
                        arms[arm] = ARMS[arm](bench.llm)
                    bench.cell(name, partial(run, arms[arm], ids, mode, settings["tokens"]))
        for key, name in names.items():
            found[key].append(bench.recorded(name))
        for mode in MODES:
            if len({bench.recorded(name)["text"] for key, name in names.items() if key[0] == mode}) != 1:
                raise GlimpseError(f"passage {index}, {mode}: the arms wrote different texts")
    return found


def verifications(runs: Sequence[dict]) -> int:
    """Plain steps, which verify nothing, count too: each yields a token."""
    return sum(run["rounds"] + run["plain_steps"] for run in runs)


def tokens_a_round(runs: Sequence[dict]) -> float:
    return 1 + sum(run["accepted"] for run in runs) / verifications(runs)


def gain(pairs: Sequence[tuple[dict, dict]]) -> float:
    return tokens_a_round([pair[0] for pair in pairs]) - tokens_a_round([pair[1] for pair in pairs])


def row(found: dict, mode: str, arm: str) -> list[str]:
    runs, alone = found[mode, arm], found[mode, "sparse"]
    pairs = list(zip(runs, alone, strict=True))
    low, high = bootstrap(pairs, gain)
    rounds = verifications(runs)
    nodes, steps = sum(run["drafted"] for run in runs) / rounds, sum(run["draft_steps"] for run in runs) / rounds
    over = "" if runs is alone else f"{gain(pairs):+.2f} ({low:+.2f} to {high:+.2f})"
    return [mode, arm, f"{tokens_a_round(runs):.2f}", over, f"{steps:.1f}", f"{nodes:.1f}"]


COLUMNS = ("sampling", "drafts", "tokens a verification", "over the spine alone", "spine", "nodes")


def body(bench: Bench) -> Findings:
    found = measure(bench)
    title = f"Spines with branches, book text, {bench.settings['prompt']:,} tokens of prompt"
    pairs = list(zip(found["T=0.7", "runners-up and table, 16 nodes"], found["T=0.7", "sparse"], strict=True))
    what = f"T=0.7: tokens a verification of {GAMMA} drafts and 8 branches over the drafts alone, lower end of 95%"
    return Findings(
        [Target(what, ">= 0", bootstrap(pairs, gain)[0])], [Table(title, COLUMNS, [row(found, *key) for key in CELLS])]
    )


SUITE = Suite(
    name="spine_acceptance",
    summary=__doc__.splitlines()[0],
    settings={"prompt": 4000, "passages": 12, "measured": 12, "tokens": 64, "modes": list(MODES)},
    quick={"prompt": 400, "passages": 2, "measured": 2, "tokens": 24},
    body=body,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, Path(__file__).resolve().parents[1]))
