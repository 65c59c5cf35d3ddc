"""One mode after the other: speed beside plain decoding of the same prompts, and how far it strays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import mean
from typing import Any

from glimpse.bench.decode.models import Models
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import parse_cell
from glimpse.bench.floors import Machine
from glimpse.bench.stats import distinct_share
from glimpse.bench.tradeoff.emitted import emitted, kl, tv
from glimpse.bench.tradeoff.modes import Mode
from glimpse.bench.tradeoff.path import Law, Laws, law_of, perplexity, sparse_laws
from glimpse.bench.tradeoff.slowfast_path import slowfast_laws
from glimpse.bench.tradeoff.tasks import Task, tasks_of
from glimpse.drafting.slowfast import SlowFastDrafter
from glimpse.engine.loaded import load
from glimpse.engine.options import EngineOptions
from glimpse.llm import LLM
from glimpse.outputs import GenerationOutput
from glimpse.pacing.boundary import BoundaryPacer
from glimpse.sampling import SamplingParams

Say = Callable[[str], None]
RAMBLED = 64
"""Tokens that answers may have, where asked for no more."""
BUDGET = 300
"""Positions that sparse drafts and fast steps read; the window of the latter alone has 256."""
_SKIPPED = 20_000
"""Tokens of the text that are left out: books begin with title pages, whose continuation is hardly one."""
DRAFT_COSTS = (0.05, 0.2, 0.5)
"""Of a draft step, in plain steps, that speeds are reckoned for beside the measured one (2607.08690's grid)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured."""

    context: int = 600
    tokens: int = 64
    """Of texts that go on from a passage."""
    texts: int = 2
    rows: int = 1
    """Requests that decode together."""


@dataclass
class TradeoffMeasuring:
    """What all modes share: the model, prompts, and what plain decoding made of them."""

    models: Models
    machine: Machine
    text: Text
    source: str
    budget: int
    effort: Effort
    fast_budget: int | None = None
    """What Slow-Fast Inference reads; None: `budget`."""
    params: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.7, top_k=50, top_p=0.9, seed=1))

    @property
    def settings(self) -> dict[str, Any]:
        """See `Measures`."""
        own, sampling = self.effort, self.params
        return {
            "model": self.source, "text": self.text.label, "budget": self.budget,
            "fast_budget": self.budget_of("slowfast"), "context": own.context,
            "tokens": own.tokens, "texts": own.texts, "rows": own.rows, "temperature": sampling.temperature,
            "top_k": sampling.top_k, "top_p": sampling.top_p, "seed": sampling.seed,
        }  # fmt: skip

    def cell(self, mode: Mode, say: Say) -> dict[str, Any]:
        """See `Measures.cell`."""
        budget = self.budget_of(mode.drafter)
        llm = self.plain.variant(**mode.options(budget))
        runs, reference = self._runs(llm), self.reference
        if runs[0].speculation.graph_steps:  # the first run made the graphs
            runs = self._runs(llm)
        say("texts written")
        found = {
            "name": mode.name,
            "mode": mode.key,
            "lossy": mode.lossy,
            "drafter": mode.drafter,
            "budget": budget,
        }
        found |= speeds_of(runs, reference, len(self.prompts)) | self._strays(mode, runs, reference)
        say("laws along the exact path compared")
        return found | self._tasks(runs)

    def budget_of(self, drafter: str) -> int:
        """Positions that a drafter's steps read: what was asked for, but sinks and window at least."""
        asked = self.fast_budget or self.budget if drafter == "slowfast" else self.budget
        recall = EngineOptions(drafter, budget_floor=asked).recall
        return max(asked, recall.sinks + recall.recent)

    @cached_property
    def plain(self) -> LLM:
        """Plain decoding, with room for the longest prompt."""
        length = self.effort.context + 2 * max(self.effort.tokens, RAMBLED) + 64
        shape = parse_cell(f"{self.effort.context}x1", self.source, (8,))
        loaded = load(self.models.open(shape, length), None, max(2, self.effort.rows + 1), SlowFastDrafter.scores)
        llm = LLM.__new__(LLM)
        llm._set_up(loaded, EngineOptions("none", "fixed"), None, lambda stage, done, total: None)
        return llm

    @cached_property
    def prompts(self) -> list[list[int]]:
        """Passages to go on from."""
        skipped = _SKIPPED // self.effort.context + 1
        found = self.text.prompts(self.plain.tokenizer, self.effort.context, skipped + self.effort.texts)
        return found[skipped:]

    @cached_property
    def tasks(self) -> list[Task]:
        """See `tasks`."""
        return tasks_of(self.plain.tokenizer, self.prompts, self.effort.context)

    @cached_property
    def reference(self) -> list[GenerationOutput]:
        """What plain decoding writes; its first run is a warm-up."""
        self._runs(self.plain)
        return self._runs(self.plain)

    @cached_property
    def _law(self) -> Law:
        return law_of(self.plain, self.params.resolve({}))

    def _runs(self, llm: LLM) -> list[GenerationOutput]:
        """Texts first, then tasks, as many at a time as there are rows."""
        prompts = [*self.prompts, *(task.prompt for task in self.tasks)]
        found = list[GenerationOutput]()
        for begin in range(0, len(prompts), self.effort.rows):
            group = range(begin, min(begin + self.effort.rows, len(prompts)))
            params = [self._params(place) for place in group]
            found += llm.generate([prompts[place] for place in group], params)
        return found

    def _params(self, place: int) -> SamplingParams:
        texts = place < len(self.prompts)
        limit = self.effort.tokens if texts else max(RAMBLED, self.effort.tokens)
        return replace(self.params, max_tokens=limit, seed=(self.params.seed or 0) + place, ignore_eos=texts)

    def _strays(
        self, mode: Mode, runs: Sequence[GenerationOutput], reference: Sequence[GenerationOutput]
    ) -> dict[str, Any]:
        """Agreement, laws and perplexity of the texts."""
        count = len(self.prompts)
        same = [_agreeing(run.token_ids, right.token_ids) for run, right in zip(runs, reference, strict=True)]
        with_noise = mode.rule is None or mode.rule.draft_role.name == "TARGET"
        found: dict[str, Any] = {"agreement": mean(same[:count]) if with_noise else None, "kl": 0.0, "tv": 0.0}
        if mode.rule is not None:
            found |= self._laws(mode)
        outs = zip(self.prompts, runs[:count], strict=True)
        found["perplexity"] = mean(perplexity(self.plain, prompt, out.token_ids) for prompt, out in outs)
        found["distinct"] = mean(distinct_share(out.token_ids) for out in runs[:count])
        return found

    def _laws(self, mode: Mode) -> dict[str, Any]:
        """Mean KL and TV of the law that comes out, at every position of the exact texts."""
        rule, divergences = mode.rule, list[tuple[float, float]]()
        for place in range(len(self.prompts)):
            laws = self._paths(place, mode.drafter, mode.drafts or 0)
            for row, (p, q) in enumerate(zip(laws.target, laws.draft, strict=True)):
                law = emitted(rule, p, q, seed=row)
                divergences.append((kl(p, law), tv(p, law)))
        return {"kl": mean(one for one, _ in divergences), "tv": mean(one for _, one in divergences)}

    def _paths(self, place: int, drafter: str, drafts: int) -> Laws:
        key = (place, drafter, drafts)
        if key not in self._known:
            if len(self._known) >= 2 * len(self.prompts):
                self._known.clear()
            prompt, output = self.prompts[place], self.reference[place].token_ids
            budget = EngineOptions(drafter, budget=1e-9, budget_floor=self.budget_of(drafter)).recall
            if drafter == "slowfast":
                most = drafts or BoundaryPacer.MOST
                self._known[key] = slowfast_laws(self.plain, prompt, output, self._law, budget, most)
            else:
                self._known[key] = sparse_laws(self.plain, prompt, output, self._law, drafts, budget)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[int, str, int], Laws]:
        return {}

    def _tasks(self, runs: Sequence[GenerationOutput]) -> dict[str, Any]:
        """Scores by kind, and the answers' lengths."""
        answers, scores = runs[len(self.prompts) :], defaultdict(list)
        for task, out in zip(self.tasks, answers, strict=True):
            scores[task.kind].append(task.score(out.text))
        return {
            "scores": {kind: mean(found) for kind, found in scores.items()},
            "answer_tokens": mean(len(out.token_ids) for out in answers),
            "cut_off": mean(out.finish_reason == "length" for out in answers),
        }


def speeds_of(runs: Sequence[GenerationOutput], reference: Sequence[GenerationOutput], texts: int) -> dict[str, Any]:
    """Tokens a second of all requests, over plain decoding's of the same prompts, and what was accepted.

    `reckoned`: the study's proxy, (length of plain answers / of these) (l + 1) / (1 + N c) with l of N drafts accepted.
    The first `texts` are no answers: their length is given.
    """
    rates = [_rate(outs) for outs in (runs, reference)]
    counts = [out.speculation for out in runs]
    drafted, accepted = sum(own.drafted for own in counts), sum(own.accepted for own in counts)
    rounds = sum(own.rounds for own in counts)
    plain_length, own_length = (sum(len(out.token_ids) for out in outs[texts:]) for outs in (reference, runs))
    length = plain_length / own_length if own_length else 1.0
    mean_drafted, mean_accepted = (count / rounds if rounds else 0.0 for count in (drafted, accepted))
    return {
        "tokens_per_s": rates[0],
        "plain_tokens_per_s": rates[1],
        "speedup": rates[0] / rates[1] if rates[1] else 0.0,
        "drafted": mean_drafted,
        "accepted": mean_accepted,
        "relaxed": sum(own.relaxed for own in counts) / max(1, accepted),
        "trusted": sum(own.trusted for own in counts) / max(1, sum(len(out.token_ids) for out in runs)),
        "reckoned": {
            f"{cost:g}": length * (mean_accepted + 1) / (1 + mean_drafted * cost) for cost in DRAFT_COSTS
        } if rounds else {},
    }  # fmt: skip


def _rate(outs: Sequence[GenerationOutput]) -> float:
    seconds = sum(out.timing.decode_s for out in outs)
    return sum(len(out.token_ids) - 1 for out in outs) / seconds if seconds else 0.0


def _agreeing(mine: Sequence[int], right: Sequence[int]) -> float:
    """The share of a text before the first token that differs."""
    same = next((place for place, pair in enumerate(zip(mine, right, strict=False)) if pair[0] != pair[1]), None)
    return 1.0 if same is None else same / max(1, len(right))
