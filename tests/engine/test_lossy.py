"""Lossy modes through the engine: strict ends are exact, what is refused, and nothing is lossy without the option."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from tests.adapters import write_random_adapter
from tests.doubles import Fixed, with_parts

from glimpse import acceptance
from glimpse.acceptance.lossy import LOSSY
from glimpse.acceptance.rule import trusts
from glimpse.cli import report
from glimpse.drafting import DRAFTERS
from glimpse.engine.build import make_parts
from glimpse.engine.device.eligible import why_not_engine
from glimpse.engine.options import EngineOptions
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.llm import LLM
from glimpse.pacing import PACERS
from glimpse.sampling import SamplingParams

IDS = [(37 * i) % 250 + 3 for i in range(70)]
PARAMS = SamplingParams(max_tokens=24, temperature=0.8, seed=2)
WALKS, LAWS = ("typical", "top-k", "entropy-gated"), ("cactus", "cascade-opt", "cascade-tok", "contrastive", "ensemble",
                                                "fuzzy", "mentored", "r-fuzzy")  # fmt: skip


def test_every_lossless_configuration_is_lossless(tiny, tmp_path):
    """All drafters, pacers and exact rules: whatever can be built without the option has an exact rule and trusts
    nothing."""
    built = Counter()
    adapter = write_random_adapter(tmp_path / "random.safetensors", tiny)
    for drafter, pacer, rule in product(
        DRAFTERS.names(), [None, *PACERS.names()], [None, *acceptance.REGISTRY.names()]
    ):
        options = EngineOptions(drafter, pacer, rule, adapter=str(adapter) if drafter == "block" else None)
        try:
            parts = make_parts(tiny.loaded, options)
        except ArgumentError:
            continue
        built.update({("drafter", drafter), ("pacer", options.paced_by), ("rule", options.accepted_by)})
        assert options.lossy is None
        assert parts.acceptance.lossless
        assert parts.drafter.lossless
        assert not trusts(parts.acceptance)
        assert type(parts.acceptance) is type(acceptance.resolve(rule or "coupled"))
    assert {name for part, name in built if part == "drafter"} == {*DRAFTERS.names()}
    assert {name for part, name in built if part == "pacer"} == {*PACERS.names()}
    assert {name for part, name in built if part == "rule"} == {*acceptance.REGISTRY.names()}
    assert sum(count for (part, _), count in built.items() if part == "drafter") > 100


@pytest.mark.parametrize("name", [*LOSSY.names(), "trust"])
def test_no_other_option_leads_to_a_lossy_rule(tiny, name):
    with pytest.raises(GlimpseError, match="unknown name"):
        tiny.variant(acceptance=name)
    if name != "slowfast":
        for option in ("drafter", "pacer"):
            with pytest.raises(ArgumentError, match="unknown name"):
                tiny.variant(**{option: name})


def test_a_drafter_that_says_it_is_lossy_needs_the_option(tiny, monkeypatch):
    monkeypatch.setitem(DRAFTERS.builtin, "loose", f"{__name__}:Loose")
    with pytest.raises(ArgumentError, match="drafter 'loose' says that it is lossy"):
        tiny.variant(drafter="loose")


class Loose(Fixed):
    """What a registry may name."""

    lossless = False


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lossy": "typical", "acceptance": "coupled"}, "acceptance 'coupled' is exact and lossy 'typical:0.3' is not"),
        ({"lossy": "typical", "exact": "bitwise"}, "exact 'bitwise' is exact and lossy 'typical:0.3' is not"),
        ({"lossy": "cactus", "drafter": "lookup"}, "lossy 'cactus:0.1' needs the law .* 'lookup' has none; "
         "'refresh', 'slowfast', 'sparse' have one"),
        ({"lossy": "cactus", "drafter": "sparse+racer"}, "lossy 'cactus:0.1' takes chains, .* 'sparse\\+racer' gives "
         "trees; 'entropy-gated', 'top-k', 'typical' take them"),
        ({"lossy": "typical", "drafter": "none"}, "lossy 'typical:0.3' is about drafts, and drafter 'none' drafts"),
        ({"lossy": "exact"}, "lossy: unknown name 'exact'"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_before_anything_is_loaded(monkeypatch, options, said):
    monkeypatch.setattr("glimpse.engine.loaded.open_model", lambda *_, **__: pytest.fail("opened the model"))
    with pytest.raises(ArgumentError, match=said) as raised:
        LLM("demo", **options)
    assert "\n" not in str(raised.value)


def test_variants_are_refused_alike(tiny):
    with pytest.raises(ArgumentError, match=r"lossy 'cactus:0\.1' needs the law"):
        tiny.variant(drafter="lookup", pacer=None, lossy="cactus")


@pytest.mark.parametrize("rule", WALKS)
@pytest.mark.parametrize("drafter", ["sparse", "lookup", "racer", "sparse+racer"])
def test_the_strict_end_of_a_walk_is_plain_text(tiny, rule, drafter):
    strict = f"{rule}:{LOSSY.get(rule).strengths.strict:g}"
    fast = tiny.variant(drafter=drafter, pacer="fixed", lossy=strict, draft_tokens=5)
    out, right = fast.generate([IDS], PARAMS)[0], tiny.generate([IDS], PARAMS)[0]
    assert out.token_ids == right.token_ids
    assert out.speculation.relaxed == 0
    assert out.speculation.drafted > 0 or drafter == "lookup"


@pytest.mark.parametrize("rule", WALKS)
@pytest.mark.parametrize("drafter", ["sparse", "sparse+racer"])
def test_a_relaxed_walk_accepts_more_and_counts_it(tiny, rule, drafter):
    strict = LOSSY.get(rule).strengths
    runs = {}
    for strength in (strict.strict, strict.grid[-1]):
        fast = tiny.variant(drafter=drafter, pacer="fixed", lossy=f"{rule}:{strength:g}", draft_tokens=8, budget=0.9)
        runs[strength] = fast.generate([IDS], SamplingParams(max_tokens=60, temperature=1.0, seed=5))[0]
    exact, loose = (runs[strength].speculation for strength in (strict.strict, strict.grid[-1]))
    assert loose.relaxed > 0
    assert loose.acceptance_rate > exact.acceptance_rate
    assert loose.lossy == f"{rule}:{strict.grid[-1]:g}"
    assert loose.lossless is False
    assert f"{loose.relaxed} tokens were accepted by the relaxed rule alone" in report.straying(runs[strict.grid[-1]])


@pytest.mark.parametrize("rule", LAWS)
def test_rules_with_a_law_run_with_sparse_drafts(tiny, rule):
    fast = tiny.variant(drafter="sparse", pacer="fixed", lossy=rule, draft_tokens=4)
    for out in fast.generate([IDS, IDS[:50]], PARAMS):
        assert len(out.token_ids) == 24
        assert out.speculation.drafted > 0
        assert out.to_json()["speculation"]["acceptance"] == rule


@pytest.mark.parametrize("rule", [name for name in LAWS if name not in ("cascade-tok", "fuzzy")])
def test_the_strict_end_of_a_chain_rule_is_rejections_text(tiny, rule):
    """The same draws decide. (Strict `fuzzy` throws every draft away; `cascade-tok` has no strict end.)"""
    options = {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 4}
    exact = tiny.variant(**options, acceptance="rejection")
    mine = tiny.variant(**options, lossy=f"{rule}:{LOSSY.get(rule).strengths.strict:g}")
    for out, right in zip(mine.generate([IDS, IDS[:40]], PARAMS), exact.generate([IDS, IDS[:40]], PARAMS), strict=True):
        assert out.token_ids == right.token_ids
        assert out.speculation.relaxed == 0
        assert out.speculation.accepted == right.speculation.accepted > 0


def test_plain_decoding_beside_it_is_exact(tiny):
    fast = tiny.variant(drafter="sparse", pacer="fixed", lossy="top-k:4", draft_tokens=6)
    found = fast.compare(IDS, PARAMS)
    assert found.baseline.token_ids == tiny.generate([IDS], PARAMS)[0].token_ids
    assert found.baseline.speculation.acceptance == "coupled"


def test_a_fixed_draft_is_taken_where_the_rule_lets_it(tiny):
    """Three tokens are allowed, so each is among the three likeliest."""
    params = SamplingParams(max_tokens=20, seed=3, suppress_tokens=[t for t in range(300) if t not in (40, 41, 42)])
    taken = with_parts(tiny, Fixed([41, 40]), lossy="top-k:3", draft_tokens=2).generate([IDS], params)[0].speculation
    assert taken.accepted == taken.drafted
    assert 0 < taken.relaxed < taken.accepted
    refused = with_parts(tiny, Fixed([43]), lossy="top-k:4", draft_tokens=1).generate([IDS], params)[0].speculation
    assert refused.accepted == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"drafter": "sparse", "lossy": "cactus"}, "acceptance 'cactus'"),
        ({"drafter": "slowfast", "lossy": "slowfast"}, "acceptance 'trust'"),
        ({"drafter": "slowfast"}, "pacer 'boundary' reads what was drafted"),
        ({"drafter": "slowfast", "pacer": "fixed"}, "drafter 'slowfast' feeds forwards of its own"),
        ({"drafter": "sparse", "pacer": "boundary"}, "pacer 'boundary' reads what was drafted"),
    ],
)
def test_no_graph_of_a_gpu_runs_these(tiny, options, reason):
    """They run eagerly there, counted with the reason."""
    assert why_not_engine(make_parts(tiny.loaded, EngineOptions(**options))) == reason
