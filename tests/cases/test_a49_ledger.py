"""A49, A66: nothing is left behind, however many requests there were and however they ended."""

from __future__ import annotations

import gc
import random
import resource
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from tests.cases.doubles import drafting
from tests.cases.mini import mini
from tests.cases.models import GREEDY, VOCAB, prompt, texts_of
from tests.cases.verdicts import ledger

from glimpse.errors import ArgumentError
from glimpse.sampling import SamplingParams

TURNS = 1000


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    return mini(tmp_path_factory.mktemp("ledger"), rows=40, num_hidden_layers=1)


def test_a49_a_thousand_requests_however_they_end(llm):
    draw = random.Random(1)
    prompts = [prompt(length, "ledger") for length in range(1, 30)]
    texts = texts_of(llm, prompts, replace(GREEDY, max_tokens=8))
    noisy, ends = drafting(llm, "NOISY", texts, p=0.5, draft_tokens=4), {"stop": 0, "length": 0, "error": 0}
    for turn in range(TURNS):
        ids, text = draw.choice(texts)
        how = turn % 4
        stop = {"stop_token_ids": [text[1]]} if how == 1 else {}
        if how == 2:
            stop = {"stop": llm.tokenizer.decode(text[1:3]) or "x"}
        if how == 3 and turn % 16 == 3:
            stop = {"suppress_tokens": list(range(VOCAB))}
        with ledger(noisy):
            try:
                out = noisy.generate([ids], SamplingParams(max_tokens=3, temperature=0.0, **stop))[0]
            except ArgumentError:
                ends["error"] += 1
            else:
                ends[out.finish_reason] += 1
    assert min(ends.values()) > 30, ends


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a66_memory_is_flat_without_speculation(llm):
    """A thousand requests, in turn by the drafter that is none and by drafts of no tokens.

    What each leaves behind is there at every look; an allocator that takes 4 MiB more once, in a process that has run
    other tests, leaves nothing.
    """
    variants = llm, llm.variant(drafter="lookup", draft_tokens=0)
    prompts, params = [prompt(8, turn) for turn in range(40)], replace(GREEDY, max_tokens=2)
    sizes = []
    for turn in range(TURNS // len(prompts)):
        off = variants[turn % 2]
        with ledger(off):
            outs = off.generate(prompts, params)
        assert sum(out.speculation.drafted for out in outs) == 0
        if turn % 3 == 2:
            gc.collect()
            sizes.append(resident())
    grown = [after - before for before, after in pairwise(sizes[2:])]
    assert median(grown) < 64 << 10, sizes
    assert max(sizes[2:]) - sizes[2] < 8 << 20
