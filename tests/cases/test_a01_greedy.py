"""A01-A05: with drafts, greedy text is the text of plain decoding; in bf16 up to ties, each of them judged."""

from __future__ import annotations

from dataclasses import replace
from pydoc_data.topics import topics

import pytest
from safetensors.torch import load_file
from tests.cases.doubles import NAMES, AlwaysWrong, Fixed, Watched, drafting, lookup, self_drafting, watched, with_parts
from tests.cases.models import GREEDY, VOCAB, copied, narrow, plain, prompt, ref, texts_of
from tests.cases.verdicts import Tie, eq, noise_limit, tie
from tests.tiny import write_weights

from glimpse.bench.judge import margin
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

PROMPTS = [copied(8 + seed, seed) if seed % 2 else prompt(1 + seed, seed) for seed in range(50)]
IDS = prompt(30)


def real_prompts(llm: LLM, count: int, tokens: int = 40) -> list[list[int]]:
    """Beginnings of Python's own help texts."""
    return [llm.tokenizer.encode(text)[:tokens] for text in list(topics.values())[:count]]


@pytest.fixture(scope="module")
def half(tiny_folder):
    """M-tiny in bf16."""
    return LLM(tiny_folder, dtype="bfloat16", drafter="none", pacer="fixed", max_batch_size=40, device="cpu")


@pytest.fixture(scope="module", params=["free", "narrow"])
def alone(request, tiny):
    """(parameters, REF of all prompts)"""
    params = replace(narrow() if request.param == "narrow" else GREEDY, max_tokens=20)
    return params, ref(tiny, PROMPTS, params)


@pytest.mark.parametrize("draft_tokens", [1, 4, 8])
@pytest.mark.parametrize("make", [lookup, self_drafting])
def test_a01_float32_is_equal_on_every_prompt(mtiny, make, draft_tokens, alone):
    params, texts = alone
    outs = make(mtiny, draft_tokens).generate(PROMPTS, params)
    eq(outs, texts)
    drafted, accepted = (sum(getattr(out.speculation, name) for out in outs) for name in ("drafted", "accepted"))
    assert accepted == drafted > 400 if make is self_drafting else accepted > 100 or params.suppress_tokens is None


@pytest.mark.parametrize(("make", "draft_tokens"), [(lookup, 8), (self_drafting, 4)])
def test_a01_a03_smollm2_in_float32(smol, make, draft_tokens):
    """All of what the target drafts for itself is accepted."""
    params = SamplingParams(max_tokens=16, temperature=0.0, ignore_eos=True)
    prompts = real_prompts(smol, 2)
    outs = make(smol, draft_tokens).generate(prompts, params)
    eq(outs, [out.token_ids for out in smol.generate(prompts, params)])
    assert all(out.speculation.drafted for out in outs)
    assert make is lookup or {out.speculation.acceptance_rate for out in outs} == {1.0}


def judged(llm: LLM, fast: LLM, prompts: list[list[int]], params: SamplingParams, width: int) -> list[Tie]:
    """The ties of all prompts; fails for a difference that is none."""
    texts = ref(llm, prompts, params)
    outs = [fast.generate([ids], params)[0] for ids in prompts]
    found = [tie(llm, ids, text, out, params, width=width) for ids, text, out in zip(prompts, texts, outs, strict=True)]
    return [one for one in found if one]


@pytest.mark.parametrize(("make", "draft_tokens"), [(lookup, 8), (self_drafting, 1), (self_drafting, 8)])
def test_a01_bfloat16_differs_only_by_ties(half, make, draft_tokens):
    """Each divergence is told with its gap (pytest -s)."""
    params = replace(narrow() if make is lookup else GREEDY, max_tokens=24)
    fast, rule = watched(make(half, draft_tokens))
    ties = judged(half, fast, PROMPTS[20:28], params, draft_tokens + 1)
    print(make.__name__, draft_tokens, [(one.position, one.gap, one.limit) for one in ties])
    assert sum(made.accepted for made in rule.rounds) > 20


def test_a02_ties_are_told_and_float32_has_none(tiny_folder, half, mtiny):
    """`compare` says where two outputs part and by how much the plain path preferred its own token; the switch under
    which nothing differs is float32."""
    for ids in PROMPTS[:6]:
        result = self_drafting(half, 4).compare(ids, replace(GREEDY, max_tokens=24))
        parted = result.first_divergence
        assert (parted is None) == result.identical
        if parted is not None:
            assert parted.margin <= noise_limit(half, [*ids, *result.baseline.token_ids], 5)
        assert self_drafting(mtiny, 4).compare(ids, replace(GREEDY, max_tokens=24)).identical


def test_a02_of_exactly_equal_logits_the_lowest_id_is_taken(altered, tiny_folder):
    """The tie rule: every odd token has the head's row of the even one before it, so all maxima are exact ties."""
    folder = altered()
    weights = load_file(tiny_folder / "model.safetensors")
    weights["lm_head.weight"] = weights["lm_head.weight"][::2].repeat_interleave(2, 0).contiguous()
    (folder / "model.safetensors").unlink()
    write_weights(folder, weights)
    llm = LLM(folder, drafter="none", pacer="fixed", device="cpu")
    (text,) = ref(llm, [IDS])
    assert all(token % 2 == 0 for token in text)
    assert len(set(text)) > 10
    for name in ("ORACLE", "NOISY", "SELF"):
        eq(drafting(llm, name, [(IDS, text)]).generate(IDS, GREEDY), [text])


@pytest.mark.parametrize("draft_tokens", [1, 4])
def test_a03_the_targets_own_drafts_are_all_accepted(mtiny, draft_tokens):
    long = replace(GREEDY, max_tokens=200)
    out = self_drafting(mtiny, draft_tokens).generate(IDS, long)[0]
    eq([out], ref(mtiny, [IDS], long))
    assert out.speculation.acceptance_rate == 1.0
    assert out.speculation.drafted >= 200 * draft_tokens // (draft_tokens + 1) - 1


@pytest.mark.parametrize("draft_tokens", [1, 4])
def test_a03_every_rejection_in_bfloat16_is_a_tie(half, draft_tokens):
    fast, rule = watched(self_drafting(half, draft_tokens))
    text = list(fast.generate(IDS, replace(GREEDY, max_tokens=200))[0].token_ids)
    limit = noise_limit(half, [*IDS, *text], draft_tokens + 1)
    assert rejections_within(half, rule, text, limit) <= 0.1 * len(rule.drafted)


def rejections_within(llm: LLM, rule: Watched, text: list[int], limit: float) -> int:
    """How many drafts were rejected, each of which the plain path finds as good as what was written, or better."""
    refused = [made for made in rule.drafted if made.accepted < len(made.draft)]
    for made in refused:
        at = made.position - len(IDS) + made.accepted
        if at < len(text):
            assert margin(llm, IDS, text, at, made.draft[made.accepted], GREEDY) <= limit
    return len(refused)


def test_a04_a_single_wrong_token_is_always_rejected(mtiny):
    texts = texts_of(mtiny, [IDS])
    out = with_parts(mtiny, AlwaysWrong(texts, VOCAB), draft_tokens=1).generate(IDS, GREEDY)[0]
    eq([out], [texts[0][1]])
    assert (out.speculation.accepted, out.speculation.rounds) == (0, 38)
    never = next(token for token in range(3, VOCAB) if token not in texts[0][1])
    out = with_parts(mtiny, Fixed([never]), draft_tokens=1).generate(IDS, GREEDY)[0]
    eq([out], [texts[0][1]])
    assert (out.speculation.accepted, out.speculation.rounds) == (0, 38)


@pytest.mark.parametrize("draft_tokens", [1, 4, 8])
def test_a04_drafts_wrong_in_any_slot(mtiny, draft_tokens):
    texts = texts_of(mtiny, [IDS], replace(GREEDY, max_tokens=120))
    fast, rule = watched(drafting(mtiny, "NOISY", texts, draft_tokens, p=0.3))
    eq(fast.generate(IDS, replace(GREEDY, max_tokens=120)), [texts[0][1]])
    wrong_first = [made for made in rule.drafted if made.draft[0] != texts[0][1][made.position - len(IDS)]]
    assert len(wrong_first) > 5
    assert not any(made.accepted for made in wrong_first)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a05_the_prefills_token_is_the_first(mtiny, name, limit):
    texts = texts_of(mtiny, [IDS])
    out = drafting(mtiny, name, texts).generate(IDS, replace(GREEDY, max_tokens=limit))[0]
    eq([out], [texts[0][1][:limit]])
    assert (out.finish_reason, out.usage.completion_tokens) == ("length", limit)


@pytest.mark.parametrize("name", NAMES)
def test_a05_the_prefills_token_may_be_the_last(altered, mtiny, name):
    texts = texts_of(mtiny, [IDS])
    llm = LLM(altered(eos_token_id=texts[0][1][0]), drafter="none", pacer="fixed", device="cpu")
    out = drafting(llm, name, texts).generate(IDS, GREEDY)[0]
    eq([out], [texts[0][1][:1]])
    assert out.finish_reason == "stop"
    assert plain(llm).generate(IDS, GREEDY)[0].token_ids == out.token_ids
