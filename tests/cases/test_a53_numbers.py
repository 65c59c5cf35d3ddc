"""A53: logits that are no numbers end the request they belong to, with its step; nobody else notices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tests.cases.doubles import drafting
from tests.cases.mini import mini, write_mini
from tests.cases.models import GREEDY, prompt, texts_of
from tests.cases.verdicts import ledger
from tests.tiny import write_weights

from glimpse.attention import RowSpec
from glimpse.engine import engine as loop
from glimpse.engine.submit import make_requests
from glimpse.errors import GlimpseError
from glimpse.llm import LLM

PROMPTS = [prompt(length, "a53") for length in (5, 30, 12)]
PARAMS = replace(GREEDY, max_tokens=20)
VICTIM = 1
ODD = 299
"""A token that no text of this file has."""


def spoilt(monkeypatch, value: float, where: Callable[[RowSpec], bool]) -> None:
    """Puts `value` into the last logits of the rows of a forward that satisfy `where`."""
    whole = loop.forward

    def forward(decoder, pool, rows, specs):
        result = whole(decoder, pool, rows, specs)
        for spec, logits in zip(specs, result.logits, strict=True):
            if where(spec) and len(logits):
                logits[-1, ODD] = value
        return result

    monkeypatch.setattr(loop, "forward", forward)


def run(llm):
    requests = [make_requests(llm.loaded, llm._engine, ids, PARAMS)[0] for ids in PROMPTS]
    with ledger(llm):
        for request in requests:
            llm._engine.add(request)
        while llm._engine.busy:
            llm._engine.step()
    return requests


@pytest.fixture
def llm(tmp_path):
    return mini(tmp_path, rows=3, max_context=128)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["none", "NOISY", "sparse"])
def test_a53_in_the_target(llm, monkeypatch, name, value):
    texts = texts_of(llm, PROMPTS, PARAMS)
    assert not any(ODD in text for _, text in texts)
    sparse = {"drafter": "sparse", "draft_tokens": 3, "budget_floor": 8}
    fast = {
        "none": lambda: llm,
        "NOISY": lambda: drafting(llm, "NOISY", texts),
        "sparse": lambda: llm.variant(**sparse),
    }
    own = fast[name]()
    length = len(PROMPTS[VICTIM])
    spoilt(monkeypatch, value, lambda spec: spec.recall is None and spec.slot == VICTIM and spec.stop > length + 6)
    requests = run(own)
    for index, (request, (_, text)) in enumerate(zip(requests, texts, strict=True)):
        written = tuple(request.committer.token_ids)
        if index != VICTIM or value == -math.inf:
            assert (written, request.error) == (text, None)
            continue
        assert 6 <= len(written) < 20
        assert written == text[: len(written)]
        assert str(request.error).startswith("step ")
        assert f"row {VICTIM}" in str(request.error)
        assert "not finite" in str(request.error)
    monkeypatch.undo()
    assert own.generate([PROMPTS[VICTIM]], PARAMS)[0].token_ids == texts[VICTIM][1]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a53_in_the_draft(llm, monkeypatch, value):
    """The draft stops there, or goes on; the text is plain decoding's either way."""
    texts = texts_of(llm, PROMPTS, PARAMS)
    own = llm.variant(drafter="sparse", draft_tokens=3, budget_floor=8)
    spoilt(monkeypatch, value, lambda spec: spec.recall is not None and spec.stop % 3 == 0)
    requests = run(own)
    assert [tuple(request.committer.token_ids) for request in requests] == [text for _, text in texts]
    assert sum(request.speculation.drafted for request in requests) > 10


@pytest.mark.parametrize("drafter", ["none", "lookup", "sparse"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a53_float16_that_overflows(tmp_path, drafter, temperature):
    """One MLP weight times 1e4: an error that says what helps, at the first token; bfloat16 and float32 are fine."""
    folder = write_mini(tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.1.mlp.down_proj.weight"] *= 1e4
    write_weights(folder, weights)
    params = replace(PARAMS, temperature=temperature, seed=1)
    options = {"drafter": drafter, "max_batch_size": 2, "device": "cpu"}
    with pytest.raises(GlimpseError, match=r"^step 0: .* not finite numbers; .* try float32 or bfloat16$"):
        LLM(folder, dtype="float16", **options).generate([PROMPTS[0]], params)
    for dtype in ("float32", "bfloat16"):
        out = LLM(folder, dtype=dtype, **options).generate([PROMPTS[0]], params)[0]
        assert len(out.token_ids) == 20
    assert torch.isfinite(weights["model.layers.1.mlp.down_proj.weight"]).all()
