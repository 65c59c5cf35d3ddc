"""`auto` beside each host drafter, replayed on answers that were written before: no forward, real decisions.

    python -m benchmarks.auto_replay ANSWERS [--mode greedy] [--surface two] [--tokens 64] [--starts 16]

Drafters, pacers and rows are the engine's own; a step takes what such steps took (`SURFACES`, `LAYING`), and the
processor time of drafting and pacing besides. `--starts`: what the speed over an answer's first tokens says of the
rest. ANSWERS is what `benchmarks.retrieval_answers` wrote. Logits are known of the answer's own tokens only, so
drafters that recycle those of rejected nodes do a little better in truth. The self drafter is left out.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from benchmarks.retrieval_acceptance import Answer
from glimpse.cache.pool import CacheShape, PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.drafting import DRAFTERS
from glimpse.drafting.auto import AutoDrafter, makers
from glimpse.drafting.drafter import Draft, DraftContext, Outcome, Successors
from glimpse.pacing import PACERS
from glimpse.pacing.costs import StepCosts, StepLoad
from glimpse.pacing.pacer import Action, PaceContext

ARMS = {
    "none": "fixed",
    "lookup": "entropy",
    "suffix": "marginal",
    "racer": "marginal",
    "racer+suffix": "marginal",
    "auto": "auto",
}
SURFACES = {
    "two": ([1, 2, 4, 8, 9, 16, 32, 65], [20.0, 21.0, 21.0, 24.2, 24.8, 30.2, 46.0, 78.0]),
    "one": ([1, 2, 4, 8, 9, 16, 32, 65], [26.0, 30.0, 36.0, 46.0, 48.0, 62.0, 93.0, 157.0]),
}
"""Milliseconds of a step by its tokens, demo model, some 500 tokens of context: on two threads and on one."""
LAYING = (0.5, 0.1)
"""Milliseconds that the engine itself takes longer for a step with a draft, and for each node: laying it into the row,
checking it, looking at its logits. By the thread's time of engine steps less that of their forwards, 0 to 10 nodes."""
MOST = 64


@dataclass(slots=True)
class Replay:
    """One answer written again by one arm; `seconds` are those of the steps and of the host."""

    drafter: object
    pacer: object
    costs: StepCosts
    surface: tuple[list[int], list[float]]
    noise: random.Random
    host: bool = True
    """Whether the host's time counts."""
    seconds: float = 0.0
    rounds: list[tuple[int, float]] = field(default_factory=list)
    """Tokens and seconds of each step of the last answer."""

    def run(self, answer: Answer) -> tuple[float, list]:
        """Seconds a token, and what was chosen."""
        rows = Rows(1, len(answer.ids) + MOST + 2, MOST)
        pool = PagePool(CacheShape(1, 1, 2), 4, 16, torch.float32)
        rows.open(0, answer.ids[: answer.prompt + 1], Sequence(pool), len(answer.ids))
        rows.prompt_len[0] = answer.prompt
        view, choices, begin = RowView(rows, (0,)), [], int(rows.committed_len[0])
        self.drafter.admit(view)
        self.pacer.admit(view)
        self.seconds, self.rounds = 0.0, []
        while int(rows.committed_len[0]) < len(answer.ids):
            choices += self._step(view, answer)
        self.drafter.retire(view)
        self.pacer.retire(view)
        return self.seconds / (len(answer.ids) - begin), choices

    def _step(self, view: RowView, answer: Answer) -> list:
        rows, length = view.rows, int(view.rows.committed_len[0])
        begun = self._clock()
        decided = self.pacer.decide(view, [min(MOST, len(answer.ids) - length - 1)])
        if decided.actions[0] is Action.DRAFT:
            self._fill(view, self.drafter.plan(view, decided.room))
        host = self._clock() - begun
        drafted = int(rows.draft_len[0])
        path = self._path(rows, answer.ids[length:], drafted)
        laying = LAYING[0] + LAYING[1] * drafted if drafted else 0.0
        forward = float(np.interp(1 + drafted, *self.surface)) * self.noise.lognormvariate(0, 0.05)
        seconds, spent = 1e-3 * (forward + laying), self.seconds
        load = StepLoad(full_tokens=1 + drafted, full_kv=length + drafted, pairs=(1 + drafted) * length)
        outcome = self._outcome(answer, length, drafted, path)
        begun = self._clock()
        self.costs.observe(load, seconds + host)
        self.pacer.observe(view, [outcome])
        rows.commit(0, outcome.tokens, length + len(path))
        self.drafter.absorb(view, [outcome])
        self.seconds += seconds + host + self._clock() - begun
        self.rounds.append((len(outcome.tokens), self.seconds - spent))
        return list(decided.choices.values())

    def _clock(self) -> float:
        return time.thread_time() if self.host else 0.0

    def _fill(self, view: RowView, draft: Draft) -> None:
        if len(draft.tokens):
            view.rows.put_draft(0, draft.tokens, draft.parents, draft.confidence, draft.source)
        view.rows.draft_len[0] = self.pacer.trim(view)[0]

    @staticmethod
    def _path(rows: Rows, text: list[int], drafted: int) -> list[int]:
        begin, path = int(rows.committed_len[0]), []
        nodes = list(
            zip(rows.draft_parents[0, :drafted].tolist(), rows.tokens[0, begin : begin + drafted].tolist(), strict=True)
        )
        for token in text[:-1]:
            pair = (path[-1] if path else -1, token)
            if pair not in nodes:
                break
            path.append(nodes.index(pair))
        return path

    def _outcome(self, answer: Answer, length: int, drafted: int, path: list[int]) -> Outcome:
        tokens, known = answer.ids[length : length + len(path) + 1], slice(length - 1, length + len(path))
        successors = None
        if self.drafter.wants_successors:
            successors = Successors(torch.tensor(answer.ids[known]), torch.from_numpy(answer.successors[known]),
                                    torch.from_numpy(answer.chances[known]))  # fmt: skip
        return Outcome(0, drafted, len(path), tokens, path=path, successors=successors)


def arm(name: str, surface: str, seed: int) -> Replay:
    """Drafter and pacer as an engine would build them."""
    costs = StepCosts(538_000_000, 46_080)
    offered = DRAFTERS.get(name)
    pacer = PACERS.get(ARMS[name]).build(
        PaceContext(costs, None, not offered.needs_forward, RecallBudget().positions, can_draft=offered.drafts)
    )
    context = DraftContext(PagePool(CacheShape(1, 1, 2), 4, 16, torch.float32), RecallBudget(), nodes=pacer.most)
    drafter = AutoDrafter(makers(), None, MOST) if name == "auto" else offered.build(context)
    pacer.attach(drafter)
    return Replay(drafter, pacer, costs, SURFACES[surface], random.Random(seed))


def starts(plain: list[float], rounds: list[list[tuple[int, float]]], first: int) -> str:
    """What one arm's speed over plain decoding over the `first` tokens of answers says of the rest: the slope of the
    logarithms, and what came of slow starts. `plain`: seconds a token of plain decoding, by answer."""
    begun, rest = [], []
    for second, own in zip(plain, rounds, strict=True):
        seconds = np.concatenate([np.full(tokens, taken / tokens) for tokens, taken in own]) / second
        if len(seconds) >= 2 * first:
            begun.append(1 / seconds[:first].mean())
            rest.append(1 / seconds[first:].mean())
    if len(begun) < 3:
        return f"{len(begun)} answers of {2 * first} tokens: too few"
    fast, later = np.array(begun), np.array(rest)
    slope, _ = np.polyfit(np.log(fast), np.log(later), 1)
    slow = later[fast < 0.97]
    came = f"{slow.mean():.2f} after the {len(slow)} starts below 0.97" if len(slow) else "no start below 0.97"
    means = f"first {first} tokens {fast.mean():.2f}, rest {later.mean():.2f}"
    return f"{len(fast)} answers, {means}, slope {slope:.2f}; {came}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.auto_replay", description=__doc__.partition("\n")[0])
    parser.add_argument("answers", type=Path)
    parser.add_argument("--mode", default="greedy")
    parser.add_argument("--surface", default="two", choices=SURFACES)
    parser.add_argument("--every", type=int, default=1, help="only every so many answers")
    parser.add_argument("--tokens", type=int, help="only the first so many tokens of each answer")
    parser.add_argument("--starts", type=int, help="tokens of a start")
    options = parser.parse_args()
    time.perf_counter = time.thread_time  # what a busy machine makes others wait for is nobody's cost
    answers = [Answer.read(path) for path in sorted(options.answers.glob(f"*-{options.mode}.npz"))][:: options.every]
    if options.tokens:
        answers = [replace(answer, ids=answer.ids[: answer.prompt + options.tokens]) for answer in answers]
    arms = {name: arm(name, options.surface, 1) for name in ARMS}
    speeds, chosen, plain, rounds = defaultdict(list), [], [], defaultdict(list)
    for answer in answers:
        spent = {name: own.run(answer) for name, own in arms.items()}
        plain.append(spent["none"][0])
        for name, replay in arms.items():
            rounds[name].append(replay.rounds)
        for name, (seconds, _) in spent.items():
            speeds[name].append(spent["none"][0] / seconds)
        chosen.append(" ".join(f"{choice.position}:{choice.drafter}" for choice in spent["auto"][1]))
        own = {name: speeds[name][-1] for name in ARMS}
        print(f"{answer.name:28}", *(f"{name} {speed:.2f}" for name, speed in own.items()), chosen[-1], file=sys.stderr)
    print({name: round(fmean(found), 3) for name, found in speeds.items()})
    auto, best = np.array(speeds["auto"]), np.max([speeds[name] for name in ARMS if name != "auto"], axis=0)
    print(f"auto: least {auto.min():.3f}, below 0.98 in {(auto < 0.98).mean():.0%}; over the best single: mean "
          f"{(auto / best).mean():.3f}, least {(auto / best).min():.3f}; answers {len(answers)}")  # fmt: skip
    for name in ARMS if options.starts else ():
        print(f"{name}: {starts(plain, rounds[name], options.starts)}")


if __name__ == "__main__":
    main()
