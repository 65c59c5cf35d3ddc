"""Which parts of the context the drafts read."""

from __future__ import annotations

import pytest
import torch

from glimpse.sampling import SamplingParams
from glimpse.speculation import Speculation

PARAMS = SamplingParams(max_tokens=12, temperature=0.0)


@pytest.mark.parametrize("drafter", ["sparse", "sparse+racer", "refresh"])
def test_shares_of_what_was_read(tiny, drafter):
    """A budget as long as the context reads all parts alike; a small one reads some of them, the last one always."""
    prompt = torch.randint(3, 300, (200,)).tolist()
    whole, part = (
        tiny.variant(drafter=drafter, pacer="fixed", draft_tokens=3, budget_floor=floor).generate([prompt], PARAMS)[0]
        for floor in (512, 40)
    )
    for output in (whole, part):
        shares = output.speculation.recalled
        assert len(shares) == 64
        assert sum(shares) == pytest.approx(1)
    assert max(whole.speculation.recalled) < 2 / 64
    assert part.speculation.recalled[-1] > 2 / 64


def test_nothing_is_told_where_nothing_was_read(tiny):
    assert tiny.generate([[5, 6, 7]], PARAMS)[0].speculation.recalled is None
    assert Speculation().recalled is None


def test_reads_add_up():
    speculation = Speculation()
    speculation.add_reads([])
    speculation.add_reads([1, 0, 3])
    speculation.add_reads([1, 0, 3])
    assert speculation.recalled == [0.25, 0.0, 0.75]


def test_an_answer_tells_it(endless):
    body = {
        "prompt": list(range(3, 203)),
        "max_tokens": 12,
        "temperature": 0,
        "drafter": "sparse",
        "pacer": "fixed",
        "n": 2,
    }
    _, answer = endless.client.post("/v1/completions", body)
    assert sum(answer["usage"]["speculation"]["recalled"]) == pytest.approx(1)
    _, answer = endless.client.post("/v1/completions", body | {"drafter": "none", "pacer": None})
    assert answer["usage"]["speculation"]["recalled"] is None
