"""Random mixes of requests, as hypothesis strategies, and how they are run."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import strategies as st
from tests.doubles import AlwaysWrong, Noisy, RandomPacer, with_parts
from tests.property.models import SHAPES, Shape, adapter
from tests.property.poison import spoil_what_was_rolled_back
from tests.trees import Trees, with_trees

from glimpse.engine.request import Request
from glimpse.engine.submit import make_requests
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

OPTIONS = st.fixed_dictionaries(
    {"max_tokens": st.integers(1, 12), "temperature": st.sampled_from([0.0, 0.7, 1.2]), "seed": st.integers(0, 5)},
    optional={
        "top_k": st.sampled_from([1, 5, 50]),
        "top_p": st.sampled_from([0.5, 0.95]),
        "min_p": st.just(0.05),
        "repetition_penalty": st.sampled_from([1.2, 0.9]),
        "frequency_penalty": st.sampled_from([-1.0, 0.7]),
        "presence_penalty": st.just(0.5),
        "stop_token_ids": st.just(tuple(range(100, 140))),
        "min_tokens": st.integers(0, 6),
        "bad_words": st.just([[7, 8], [40]]),
        "logit_bias": st.just({77: 5.0, 7: 5.0, 8: 5.0}),
        "logprobs": st.just(1),
    },
)


@dataclass(frozen=True)
class Mix:
    """What is run, and what happens to it on the way."""

    shape: Shape
    jobs: tuple[tuple[int, dict], ...]
    """Prompt length and options of each request; prompts of a mix begin alike."""
    drafter: str
    rule: str
    reserve: str
    reuse: bool
    seed: int
    joining: int
    """Steps between requests."""
    cancelled: int
    """The step at which the first request is cancelled."""
    preempted: float
    """The chance, at each step, that a running request is put back."""

    def requests(self) -> list[tuple[list[int], SamplingParams]]:
        """Prompts and parameters."""
        start = random.Random(self.seed).choices(range(3, 300), k=80)
        made = []
        for place, (length, options) in enumerate(self.jobs):
            own = random.Random(f"{self.seed} {place}").choices(range(3, 300), k=length)
            least = min(options.get("min_tokens", 0), options["max_tokens"])
            # Under rejection only greedy text is that of a seed.
            heat = {"temperature": 0.0} if self.rule == "rejection" else {}
            params = SamplingParams(**options | {"min_tokens": least} | heat)
            made.append(([*start[: length // 2], *own][:length], params))
        return made


DRAFTERS = (
    "sparse", "refresh", "lookup", "noisy", "wrong", "trees", "wide", "racer", "suffix", "racer+suffix", "sparse+racer",
    "block",
)  # fmt: skip
"""All that there are, and doubles. Not `auto`, which hardly drafts in texts this short (`tests/engine/test_auto.py`),
nor `slowfast`, which is not exact."""
MIXES = st.builds(
    Mix,
    shape=st.sampled_from(SHAPES),
    jobs=st.lists(st.tuples(st.integers(1, 80), OPTIONS), min_size=1, max_size=5).map(tuple),
    drafter=st.sampled_from(DRAFTERS),
    rule=st.sampled_from(["coupled", "matched", "coupled", "rejection"]),
    reserve=st.sampled_from(["full", "next"]),
    reuse=st.booleans(),
    seed=st.integers(0, 1000),
    joining=st.integers(1, 4),
    cancelled=st.integers(0, 12),
    preempted=st.sampled_from([0.0, 0.0, 0.2]),
)


TREES = ("trees", "wide", "racer", "suffix", "racer+suffix", "sparse+racer")
"""Drafters that `rejection` refuses."""


def drafting(llm: LLM, mix: Mix, texts: list) -> LLM:
    """The engine that a mix is for; its pacer decides at random."""
    pacer = RandomPacer(6, mix.seed)
    options = {"acceptance": mix.rule, "reserve": mix.reserve, "prefix_reuse": mix.reuse, "draft_tokens": 6}
    if mix.rule == "rejection" and mix.drafter in TREES:
        return with_parts(llm, Noisy(texts, 0.5, seed=mix.seed), pacer, **options)
    if mix.drafter in ("trees", "wide"):
        shape = "random" if mix.drafter == "trees" else "wide"
        return with_trees(llm, Trees(texts, shape, 24, 0.7, mix.seed), pacer, **options)
    if mix.drafter == "block":
        options["adapter"] = str(adapter(mix.shape))
    doubles = {"noisy": lambda: Noisy(texts, 0.3, seed=mix.seed), "wrong": lambda: AlwaysWrong(texts)}
    if mix.drafter in doubles:
        return with_parts(llm, doubles[mix.drafter](), pacer, **options)
    return with_parts(llm, None, pacer, drafter=mix.drafter, **options)


def drive(llm: LLM, mix: Mix) -> list[Request]:
    """Runs a mix to its end; what is rolled back is spoiled after every step."""
    engine, draw = llm._engine, random.Random(mix.seed)
    requests = [make_requests(llm.loaded, engine, ids, params)[0] for ids, params in mix.requests()]
    waiting, step = list(requests), 0
    while waiting or engine.busy:
        if waiting and step % mix.joining == 0:
            engine.add(waiting.pop(0))
        if step == mix.cancelled and len(requests) > 1:
            engine.cancel(requests[0])
        running = [request for request in requests if request.clock.admitted and not request.finished]
        if running and draw.random() < mix.preempted:
            engine.preempt(draw.choice(running))
        engine.step()
        spoil_what_was_rolled_back(engine)
        step += 1
    return requests
