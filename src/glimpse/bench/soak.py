"""A random soak: requests of every kind come, leave and are put back at random, and each must be as if alone.

Prompts of mixed length, some beginning alike; arrival times, sampling settings, stops and seeds at random; requests
cancelled in any phase; forced preemptions. Of every request that ends by itself the tokens must equal those of the same
request alone and plain; of a cancelled one, the beginning. Pages, rows, references and promises return to the start.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from glimpse.engine.request import Request
from glimpse.engine.submit import make_requests
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams

_OPTIONS: tuple[dict[str, object], ...] = (
    {"top_k": 20},
    {"top_p": 0.9},
    {"min_p": 0.05},
    {"repetition_penalty": 1.2},
    {"frequency_penalty": 0.5, "presence_penalty": 0.2},
    {"logit_bias": {7: 9.0, 9: -3.0}},
    {"bad_words": [[7, 8], [40]]},
    {"logprobs": 2},
    {"prompt_logprobs": 0},
)


@dataclass(frozen=True, slots=True)
class Mix:
    """How much of what."""

    requests: int
    longest: int
    """Prompt tokens, at most; the lengths are spread evenly over the orders of magnitude."""
    most_tokens: int
    cancelled: float = 0.2
    """Share of requests that are cancelled (those that have not ended by then)."""
    preempted: float = 0.1
    """Chance, at each step, that a running request is put back."""
    apart: float = 3.0
    """Steps between arrivals, on average."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request of a soak: when it comes, and after how many steps it is cancelled, if at all."""

    prompt: list[int]
    params: SamplingParams
    arrival: int
    patience: int | None


@dataclass(slots=True)
class Soak:
    """What came of a soak."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    """Empty if all was right."""
    nearest: float = 0.0
    """Of the near tie that was least of one, margin over limit."""


Source = Callable[[Random, int], list[int]]
"""Some so many token ids to ask with."""


def any_ids(vocab: int) -> Source:
    """Random ids. 0 to 2 are left out: in most vocabularies they are special."""
    return lambda draw, count: draw.choices(range(3, vocab), k=count)


def windows(texts: Sequence[Sequence[int]]) -> Source:
    """Pieces of texts, no longer than they are."""

    def piece(draw: Random, count: int) -> list[int]:
        text = draw.choice(texts)
        begin = draw.randint(0, max(0, len(text) - count))
        return list(text[begin : begin + count])

    return piece


def make_jobs(mix: Mix, draw: Random, vocab: int, source: Source) -> list[Job]:
    """The requests of a soak, by arrival."""
    texts = [source(draw, mix.longest) for _ in range(3)]
    arrivals, now = [], 0.0
    for _ in range(mix.requests):
        now += draw.expovariate(1 / mix.apart)
        arrivals.append(int(now))
    return [
        Job(_prompt(mix, draw, texts, source), _params(mix, draw, vocab), at, _patience(mix, draw)) for at in arrivals
    ]


def _prompt(mix: Mix, draw: Random, texts: list[list[int]], source: Source) -> list[int]:
    length = round(math.exp(draw.uniform(0, math.log(mix.longest))))
    if draw.random() < 0.5:
        return source(draw, length)
    return [*draw.choice(texts)[: max(0, length - 5)], *source(draw, min(length, 5))]


def _params(mix: Mix, draw: Random, vocab: int) -> SamplingParams:
    options: dict[str, object] = {"max_tokens": draw.randint(1, mix.most_tokens)}
    for more in draw.sample(_OPTIONS, k=draw.choice((0, 0, 1, 2))):
        options |= more
    if draw.random() < 0.3:
        options |= {"stop_token_ids": draw.sample(range(3, vocab), k=vocab // 20), "min_tokens": draw.randrange(2)}
    return SamplingParams(
        temperature=draw.choice((0.0, 0.7, 1.0)),
        seed=draw.randrange(1 << 32),
        **options,  # type: ignore[arg-type]
    )


def _patience(mix: Mix, draw: Random) -> int | None:
    return draw.randint(0, mix.most_tokens) if draw.random() < mix.cancelled else None


@dataclass(frozen=True, slots=True)
class Gap:
    """How far the right path was from picking the other token, and how far rounding may carry it."""

    margin: float
    limit: float

    @property
    def near(self) -> bool:
        """Whether rounding explains it."""
        return self.margin <= self.limit

    def __str__(self) -> str:
        return f"margin {self.margin:.3f}, limit {self.limit:.3f}"


Judge = Callable[[list[int], SamplingParams, tuple[int, ...], tuple[int, ...]], Gap | None]
"""Of a prompt, its settings, the right tokens and others: the gap at the first that differs; None where there is none,
as in a text that is only shorter or longer."""


def unexcused(prompt: list[int], params: SamplingParams, right: tuple[int, ...], got: tuple[int, ...]) -> None:
    """No difference is looked into: all are faults."""


def soak(
    llm: LLM, plain: LLM, mix: Mix, seed: int, judge: Judge = unexcused, source: Source | None = None, *, alone: int = 1
) -> Soak:
    """Runs a mix through the engine of `llm`, whose requests must be as `plain` has them, near ties apart.

    The prompts are of random ids where there is no other `source`. `plain` decodes every `alone`-th request by itself,
    the others together.
    """
    draw, vocab = Random(seed), llm.tokenizer.vocab_size
    jobs = make_jobs(mix, draw, vocab, source or any_ids(vocab))
    right = _plainly(plain, jobs, alone)
    result, before = Soak(), _ledger(llm)
    requests = [make_requests(llm.loaded, llm._engine, job.prompt, job.params)[0] for job in jobs]
    _drive(llm, list(zip(jobs, requests, strict=True)), mix, draw, result)
    for index, (request, expected) in enumerate(zip(requests, right, strict=True)):
        _judge(index, jobs[index], request, expected, judge, result)
    if _ledger(llm) != before:
        result.faults.append(f"left over: {_ledger(llm)} where {before} was at the start")
    return result


def _plainly(plain: LLM, jobs: list[Job], alone: int) -> list[tuple[int, ...]]:
    """The tokens of each job. Those together are quicker on a GPU, where sampling that graphs do not do takes one eager
    step a token however many rows there are; a fault that batches have in common shows in those alone."""
    right = {place: plain.generate([jobs[place].prompt], jobs[place].params) for place in range(0, len(jobs), alone)}
    rest = [place for place in range(len(jobs)) if place not in right]
    if rest:
        found = plain.generate([jobs[place].prompt for place in rest], [jobs[place].params for place in rest])
        right |= {place: [output] for place, output in zip(rest, found, strict=True)}
    return [right[place][0].token_ids for place in range(len(jobs))]


def _drive(llm: LLM, pairs: list[tuple[Job, Request]], mix: Mix, draw: Random, result: Soak) -> None:
    engine, step, coming = llm._engine, 0, list(pairs)
    while coming or engine.busy:
        while coming and coming[0][0].arrival <= step:
            engine.add(coming.pop(0)[1])
        for job, request in pairs:
            if job.patience is not None and job.arrival + job.patience == step:
                engine.cancel(request)
        running = [request for _, request in pairs if request.clock.admitted and not request.finished]
        if running and draw.random() < mix.preempted:
            engine.preempt(draw.choice(running))
        engine.step()
        step += 1
    result.counts["steps"] = step


def _judge(index: int, job: Job, request: Request, expected: tuple[int, ...], judge: Judge, result: Soak) -> None:
    got, reason = tuple(request.committer.token_ids), request.committer.finish_reason
    result.counts[str(reason)] += 1
    result.counts["tokens"] += len(got)
    result.counts["preempted"] += request.preempted
    result.counts["drafted"] += request.speculation.drafted
    result.counts["accepted"] += request.speculation.accepted
    result.counts["compared"] += 1
    right = expected[: len(got)] if reason == "abort" else expected
    if request.error is None and got == right:
        return
    gap = judge(job.prompt, job.params, expected, got) if request.error is None else None
    if gap and gap.near:
        result.counts["near ties"] += 1
        result.nearest = max(result.nearest, gap.margin / gap.limit)
    else:
        result.faults.append(f"request {index} ({reason}, {request.error}, {gap}): {got} where {expected} is right")


def _ledger(llm: LLM) -> tuple[int, ...]:
    """Free pages, promised pages, holders, wishes, free rows."""
    pool, rows = llm.loaded.pool, llm._engine.parts.rows
    held = int(pool._references.sum()), int(pool._wished.sum())
    return pool.free_pages, pool.promised, *held, len(rows.free_slots())
