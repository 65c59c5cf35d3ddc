"""A07-A14: sampled text has exactly the target's law, whatever is drafted, under every rule."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from tests.cases.by_hand import dist_of_outputs, score
from tests.cases.doubles import Fixed, HostDrafter, Noisy, drafting, watched, with_parts
from tests.cases.models import GREEDY, VOCAB, constant, log_of, narrow, prompt, ref
from tests.cases.verdicts import DRAWS, dist, eq, not_dist

from glimpse import acceptance
from glimpse.acceptance import NodeNoise
from glimpse.drafting.chains import chain
from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.sampling import Laws, Role, SamplingParams, pick

RULES = ("coupled", "matched", "rejection")
V1_P, V1_Q = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
V2_P, V2_Q, V2_DRAWN = [0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0, 0, 3 / 7, 4 / 7]
IDS = prompt(50)
ALLOWED = range(40, 46)
SAMPLED = narrow(SamplingParams(max_tokens=4, temperature=1.0, seed=1, n=300, logprobs=VOCAB), ALLOWED)


@pytest.fixture(scope="module")
def wide(tiny_folder):
    """M-tiny with room for 200 rows."""
    return LLM(tiny_folder, drafter="none", pacer="fixed", max_batch_size=200, max_context=96, device="cpu").variant(
        budget_floor=8
    )


def laws_of(p: list[float], count: int) -> Laws:
    return Laws.dense(torch.tensor(p).log().expand(count, -1))


def emitted(rule: str, p: list[float], tokens: torch.Tensor, proposal: Laws | None = None) -> list[int]:
    """The first token of each of many rounds: one draft each, the target's law p before and after it."""
    count = len(tokens)
    draft = replace(chain([[int(token)] for token in tokens], [[1.0]] * count), law=proposal)
    noise = NodeNoise(torch.arange(count).repeat_interleave(2), torch.tensor([10, 11]).repeat(count))
    accepted = acceptance.resolve(rule).accept(draft, laws_of(p, 2 * count), noise)
    return [row[0] for row in accepted.token_lists()]


def drawn(q: list[float]) -> torch.Tensor:
    """DRAWS draft tokens from q."""
    return pick(laws_of(q, DRAWS), torch.arange(DRAWS), torch.full((DRAWS,), 10), Role.DRAFT, 10)


@pytest.mark.parametrize("rule", RULES)
def test_a07_v1_a_deterministic_draft_is_scored_as_certain(rule):
    dist(emitted(rule, V1_P, torch.full((DRAWS,), 2)), V1_P)


def test_a07_v1_the_wrong_versions_would_be_seen():
    tokens = torch.full((DRAWS,), 2)
    scored_with_q = emitted("rejection", V1_P, tokens, laws_of(V1_Q, DRAWS))
    dist(scored_with_q, [0.6, 0, 0.4])
    not_dist(scored_with_q, V1_P)
    not_dist(emitted("rejection", [0.4, 0.24, 0.36], tokens), V1_P)


def test_a07_v1_through_the_engine(tmp_path):
    llm = constant(tmp_path / "v1", log_of(V1_P, first=40), max_batch_size=100, max_context=96)
    params = SamplingParams(n=100, max_tokens=60, temperature=1.0, seed=2)
    outs = with_parts(llm, Fixed([42] * 2), draft_tokens=2, acceptance="rejection").generate([5], params)
    dist([token - 40 for out in outs for token in out.token_ids], V1_P)
    first = [out.speculation.conditional_acceptance[0] for out in outs]
    assert sum(first) / len(first) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("rule", RULES)
def test_a07_tiny_at_temperature_one(wide, rule):
    fast = with_parts(wide, Fixed([42, 40]), draft_tokens=2, acceptance=rule)
    outs = fast.generate(IDS, SAMPLED)
    assert sum(out.speculation.accepted for out in outs) > 10
    dist_of_outputs(outs, allowed=ALLOWED)
    wrong = score(outs, allowed=ALLOWED, temperature=0.7)
    assert wrong[0] > wrong[1]


@pytest.mark.parametrize("rule", RULES)
def test_a08_v2_a_truncated_draft_with_its_own_law(rule):
    tokens = drawn(V2_DRAWN)
    dist(tokens.tolist(), V2_DRAWN)
    dist(emitted(rule, V2_P, tokens, laws_of(V2_DRAWN, DRAWS)), V2_P)


def test_a08_v2_the_raw_law_in_the_ratio_would_be_seen():
    wrong = emitted("rejection", V2_P, drawn(V2_DRAWN), laws_of(V2_Q, DRAWS))
    dist(wrong, [0.4286, 0.1429, 0.2857, 0.1428])
    not_dist(wrong, V2_P)


@pytest.mark.parametrize("options", [{"temperature": 0.7, "top_k": 50}, {"top_k": 3}])
def test_a08_the_law_reported_is_the_law_drawn_from(wide, options):
    """The drafter's q is cut and warmed as its tokens were, so the outputs have the target's law."""
    params = replace(SAMPLED, n=400, **options)
    fast = wide.variant(drafter="sparse", pacer="fixed", draft_tokens=2, acceptance="rejection")
    fast, rule = watched(fast)
    outs = fast.generate(IDS, params)
    dist_of_outputs(outs, allowed=ALLOWED, **options)
    q = torch.cat([made.proposal.probs() for made in rule.drafted]).double()
    tokens = torch.tensor([token for made in rule.drafted for token in made.draft])
    ranked = q.sort(1, descending=True)
    ranks = (ranked.indices == tokens[:, None]).int().argmax(1).tolist()
    dist(ranks, ranked.values.mean(0).tolist())
    warmer = ranked.values**0.5
    not_dist(ranks, (warmer / warmer.sum(1, keepdim=True)).mean(0).tolist())


@pytest.mark.parametrize("rule", RULES)
def test_a09_an_unlikely_draft_is_accepted_as_often_as_it_is_likely(rule):
    got = emitted(rule, [0.0008, 0.5, 0.4992], torch.zeros(DRAWS, dtype=torch.int64))
    assert 1 <= got.count(0) <= 32, "16 of 20,000 are right, 4 standard deviations allowed"


def test_a09_an_unlikely_draft_through_the_engine(wide):
    """5,000 drafts of one token of probability under 0.001."""
    params = SamplingParams(max_tokens=26, n=200, seed=3, temperature=1.0, logit_bias={50: -12.0})
    fast, watch = watched(with_parts(wide, Fixed([50]), draft_tokens=1, acceptance="rejection"))
    outs = fast.generate(IDS, params)
    chances = torch.cat([made.laws.probs()[:1, 50] for made in watch.drafted]).double()
    accepted = sum(out.speculation.accepted for out in outs)
    assert len(chances) >= 4_500
    assert float(chances.mean()) < 0.001
    assert accepted <= float(chances.sum()) + 4 * float(chances.sum()) ** 0.5 + 1


def test_a09_a_certain_draft_is_always_accepted(tmp_path):
    """The other side: the count of matches is neither all nor nothing by itself."""
    llm = constant(tmp_path / "sure", {40: 0.0})
    out = with_parts(llm, Fixed([40] * 4), draft_tokens=4).generate([5], SamplingParams(max_tokens=50, seed=1))[0]
    assert out.speculation.acceptance_rate == 1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("drafter", ["sparse", "FIXED"])
def test_a10_the_same_settings_on_both_sides(wide, rule, drafter):
    options = {"temperature": 0.3, "top_p": 0.5}
    if drafter == "sparse":
        fast = wide.variant(drafter="sparse", pacer="fixed", draft_tokens=2, acceptance=rule)
    else:
        fast = with_parts(wide, Fixed([42, 41]), draft_tokens=2, acceptance=rule)
    outs = fast.generate(IDS, replace(SAMPLED, n=200, **options))
    assert sum(out.speculation.drafted for out in outs) > 200
    dist_of_outputs(outs, allowed=ALLOWED, **options)


@pytest.mark.parametrize("prefix_reuse", [True, False])
def test_a11_the_token_after_a_rejection_comes_from_the_rejected_position(wide, prefix_reuse):
    """K = 1, so that nearly every step rejects; drafts replay one greedy text, and half of them are wrong."""
    params = replace(SAMPLED, temperature=0.7, max_tokens=8, n=200)
    (text,) = ref(wide, [IDS], narrow(replace(GREEDY, max_tokens=8), ALLOWED))
    noisy = Noisy([(IDS, text)], 0.5, VOCAB)
    fast = with_parts(wide, noisy, draft_tokens=1, acceptance="rejection", prefix_reuse=prefix_reuse)
    outs = fast.generate(IDS, params)
    rejected = sum(out.speculation.drafted - out.speculation.accepted for out in outs)
    assert rejected > 400
    dist_of_outputs(outs, allowed=ALLOWED, temperature=0.7)


@pytest.mark.parametrize("rule", ["coupled", "matched"])
def test_a11_text_is_plain_sampling_under_the_rules_that_promise_it(mtiny, rule):
    params = [SamplingParams(max_tokens=24, temperature=0.7, seed=seed) for seed in range(20)]
    prompts = [prompt(20, seed) for seed in range(20)]
    texts = ref(mtiny, prompts, params)
    fast = drafting(mtiny, "NOISY", list(zip(prompts, texts, strict=True)), 1, p=0.5, acceptance=rule)
    eq(fast.generate(prompts, params), texts)


@pytest.mark.parametrize("rule", RULES)
def test_a12_rows_of_unequal_drafts(rule):
    """Drafts of 3 and 1 tokens; there is no padding to be read, and no row yields more than its own draft and one."""
    acceptor, p = acceptance.resolve(rule), [0.3, 0.3, 0.2, 0.2]
    draft = chain([[0, 1, 2], [3]], [[1.0] * 3, [1.0]])
    full = 0
    for seed in range(1_000):
        noise = NodeNoise(torch.tensor([seed] * 4 + [-seed] * 2), torch.tensor([5, 6, 7, 8, 9, 10]))
        rows = acceptor.accept(draft, laws_of(p, 6), noise).token_lists()
        assert [1 <= len(rows[0]) <= 4, 1 <= len(rows[1]) <= 2] == [True, True]
        assert all(0 <= token < 4 for row in rows for token in row)
        full += len(rows[1]) == 2
    assert full == pytest.approx(200, abs=55)


class Padded(HostDrafter):
    """Pads its draft with -1."""

    def proposal(self, rows, slot, room):
        return [5, -1, -1]


def test_a12_a_padded_draft_is_refused(mtiny):
    with pytest.raises(GlimpseError, match="'double' drafted token id -1; ids are from 0 to 299"):
        with_parts(mtiny, Padded(), draft_tokens=3).generate(IDS, GREEDY)


def test_a13_an_unset_temperature_is_one(mtiny):
    params = [SamplingParams(top_k=50, max_tokens=3, seed=seed) for seed in range(200)]
    plain = mtiny.generate([IDS] * 200, params)
    outputs = {"plain": plain}
    for rule in ("coupled", "rejection"):
        fast = mtiny.variant(drafter="sparse", pacer="fixed", draft_tokens=2, acceptance=rule)
        outputs[rule] = fast.generate([IDS] * 200, params)
    distinct = {name: len({out.token_ids for out in outs}) for name, outs in outputs.items()}
    assert {out.settings["temperature"] for outs in outputs.values() for out in outs} == {1.0}
    assert distinct["plain"] > 100
    assert distinct["coupled"] == distinct["plain"]
    assert distinct["rejection"] == pytest.approx(distinct["plain"], rel=0.15)


GRID = list(product((0.0, 0.1, 1.0), (1.0, 0.9), (0, 1, 50), (0.0, 0.1)))
MIXED = [
    SamplingParams(temperature=t, top_p=p, top_k=k, min_p=m, max_tokens=20, seed=index)
    for index, (t, p, k, m) in enumerate(GRID)
]
PROMPTS = [prompt(12, index) for index in range(len(GRID))]


@pytest.fixture(scope="module")
def mixed(tiny):
    """REF of the grid; where the settings leave one token, that of greedy decoding."""
    texts, greedy = ref(tiny, PROMPTS, MIXED), ref(tiny, PROMPTS, replace(GREEDY, max_tokens=20))
    for params, text, certain in zip(MIXED, texts, greedy, strict=True):
        assert text == certain or (params.temperature and params.top_k != 1)
    return texts


@pytest.mark.parametrize(("name", "rule"), [*(("NOISY", rule) for rule in RULES), ("sparse", "rejection")])
def test_a14_every_mix_of_parameters(mtiny, mixed, name, rule):
    if name == "NOISY":
        fast = drafting(mtiny, "NOISY", list(zip(PROMPTS, mixed, strict=True)), 4, acceptance=rule)
    else:
        fast = mtiny.variant(drafter="sparse", pacer="fixed", draft_tokens=4, acceptance=rule)
    outs = fast.generate(PROMPTS, MIXED)
    for params, out, text in zip(MIXED, outs, mixed, strict=True):
        sure = rule != "rejection" or params.temperature == 0 or params.top_k == 1
        assert out.token_ids == text or not sure
        assert len(out.token_ids) == 20
