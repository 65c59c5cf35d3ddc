"""Watching the host's engine: what each row did in each step, and that nobody watches afterwards."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.tiny import write_tiny_checkpoint

from glimpse.engine.watch import Did, attach
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("watch") / "tiny", max_position_embeddings=1024)
    return LLM(folder, drafter="sparse", pacer="fixed", draft_tokens=2, budget_floor=38)


def test_every_step_of_a_request_is_seen(llm):
    seen, prompt = [], list(range(5, 205)) * 3
    attach(llm._engine, seen.append)
    (out,) = llm.generate([prompt], SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True))
    attach(llm._engine, None)
    did = [Did(step.did[0]) for step in seen]
    # 600 tokens are two parts; the second one gives the first token.
    assert did[:6] == [Did.PREFILL, Did.PREFILL, Did.DRAFT, Did.DRAFT, Did.VERIFY, Did.DRAFT]
    assert [step.committed[0] for step in seen[:2]] == [0, 1]
    assert sum(count for step in seen for count in step.committed) == len(out.token_ids) == 8
    assert sum(count for step in seen for count in step.drafted) == out.speculation.drafted
    assert did.count(Did.DRAFT) == out.speculation.draft_steps
    assert all(earlier.end.since(later.begin) <= 0 for earlier, later in pairwise(seen))
    before = len(seen)
    llm.generate([prompt[:20]], SamplingParams(max_tokens=2))
    assert len(seen) == before


def test_rows_that_do_different_things_are_told_apart(llm):
    seen = []
    attach(llm._engine, seen.append)
    short, long = [*range(7, 27)], [*range(6, 206)] * 3
    llm.generate([short, long], SamplingParams(max_tokens=4, temperature=0.0, ignore_eos=True))
    attach(llm._engine, None)
    mixed = [step for step in seen if len(set(step.did)) > 1]
    assert any({Did.PREFILL, Did.DRAFT} <= set(map(Did, step.did)) for step in mixed)
    assert all(len(step.slots) == len(step.requests) == len(step.did) for step in seen)


class Unwatched:
    """Has no steps."""


def test_what_cannot_be_watched_is_named():
    with pytest.raises(TypeError, match="Unwatched cannot be watched"):
        attach(Unwatched(), None)
