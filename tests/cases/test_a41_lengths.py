"""A41-A43: contexts of any length one after another, and the end of the context."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cases.doubles import drafting
from tests.cases.mini import mini, write_mini
from tests.cases.models import GREEDY, copied, prompt, ref, texts_of
from tests.cases.verdicts import eq, ledger

from glimpse.errors import ArgumentError
from glimpse.llm import LLM

LONG = (8, 200, 8, 1000)
FEW = replace(GREEDY, max_tokens=12)


@pytest.fixture(scope="module")
def roomy(tmp_path_factory):
    return write_mini(tmp_path_factory.mktemp("roomy"), max_position_embeddings=2048)


@pytest.mark.parametrize("drafter", ["lookup", "sparse", "none"])
def test_a41_prompts_of_any_length_in_one_process(roomy, drafter):
    """Each equals what an LLM gives that has seen nothing else."""
    options = {"drafter": drafter, "pacer": "fixed", "max_batch_size": 2, "device": "cpu"}
    llm = LLM(roomy, **options)
    for length in LONG:
        ids = copied(length)
        with ledger(llm):
            out = llm.generate([ids], FEW)[0]
        assert out.token_ids == LLM(roomy, **options).generate([ids], FEW)[0].token_ids
        eq([out], ref(llm, [ids], FEW))


@pytest.fixture(scope="module", params=["max_context", "max_position_embeddings"])
def narrow_context(request, tmp_path_factory):
    """A limit of 64 tokens, set either way."""
    folder = tmp_path_factory.mktemp("narrow")
    if request.param == "max_context":
        return mini(folder, rows=10, max_context=64)
    return mini(folder, rows=10, max_position_embeddings=64)


@pytest.mark.parametrize("name", ["LOOKUP", "ORACLE", "NOISY", "FIXED", "SELF"])
def test_a42_the_context_ends_at_its_limit(narrow_context, name):
    llm = narrow_context
    prompts, ten = [copied(length) for length in range(55, 65)], replace(GREEDY, max_tokens=10)
    texts = texts_of(llm, prompts, ten)
    fast = drafting(llm, name, texts, draft_tokens=5)
    with ledger(fast):
        outs = fast.generate(prompts, ten)
    eq(outs, [text for _, text in texts])
    for ids, out in zip(prompts, outs, strict=True):
        assert len(ids) + len(out.token_ids) == min(64, len(ids) + 10)
        assert out.finish_reason == "length"
    with pytest.raises(ArgumentError, match=r"65 tokens .* 64"):
        fast.generate([prompt(65)], ten)


def test_a43_the_drafter_has_the_targets_context(tmp_path):
    """There is no second model with a context of its own: what drafts, drafts up to the target's last position."""
    llm = mini(tmp_path, rows=1, max_context=128)
    ids, params = copied(20), replace(GREEDY, max_tokens=200)
    out = drafting(llm, "SELF", draft_tokens=4).generate([ids], params)[0]
    eq([out], ref(llm, [ids], params))
    assert len(out.token_ids) == 108
    assert out.speculation.plain_steps <= 1
    assert out.speculation.acceptance_rate == 1
