"""The verdicts can fail, and the doubles do what they are called."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.cases.doubles import NAMES, drafting, watched
from tests.cases.models import GREEDY, constant, copied, log_of, narrow, plain, prompt, ref, texts_of
from tests.cases.verdicts import Tie, chi_square, dist, eq, ledger, noise_limit, not_dist, tie

IDS = prompt(30)


def test_limits_of_the_case_list():
    assert chi_square([0, 1, 2] * 10, dict.fromkeys(range(3), 1 / 3)) == (0, pytest.approx(18.4, abs=0.05))
    assert chi_square([0, 1, 2, 3] * 10, dict.fromkeys(range(4), 1 / 4)) == (0, pytest.approx(21.1, abs=0.05))


def test_dist_sees_a_wrong_law():
    dist([0, 1] * 50, [0.5, 0.5])
    not_dist([0] * 80 + [1] * 20, [0.5, 0.5])
    not_dist([0] * 99 + [1], [1.0, 0.0])


def test_eq_sees_a_wrong_token(mtiny):
    out = plain(mtiny).generate(IDS, replace(GREEDY, max_tokens=3))[0]
    eq([out], [out.token_ids])
    with pytest.raises(AssertionError, match="at 1"):
        eq([out], [[out.token_ids[0], 9, 9]])


def test_tie_sees_a_real_gap(mtiny):
    (text,) = ref(mtiny, [IDS], replace(GREEDY, max_tokens=8))
    out = plain(mtiny).generate(IDS, replace(GREEDY, max_tokens=8))[0]
    assert tie(mtiny, IDS, text, out, GREEDY, width=5) is None
    wrong = replace(out, token_ids=(*text[:4], (text[4] + 1) % 300, *text[5:]))
    with pytest.raises(AssertionError, match="no tie: at 4"):
        tie(mtiny, IDS, text, wrong, GREEDY, width=5)


def test_tie_takes_a_difference_within_rounding(mtiny, monkeypatch):
    monkeypatch.setattr("tests.cases.verdicts.margin", lambda *_: 0.0)
    out = plain(mtiny).generate(IDS, replace(GREEDY, max_tokens=3))[0]
    got = tie(mtiny, IDS, [*out.token_ids[:2], 299], out, GREEDY, width=5)
    assert isinstance(got, Tie)
    assert (got.position, got.gap) == (2, 0.0)
    assert 0 <= got.limit < 1e-3


def test_noise_is_measured_behind_what_the_cache_shares(mtiny):
    mtiny.generate(IDS, replace(GREEDY, max_tokens=1))
    assert 0 < noise_limit(mtiny, IDS, 5) < 1e-3


def test_ledger_sees_a_page_that_stays(mtiny):
    pool = mtiny.loaded.pool
    taken = []
    with pytest.raises(AssertionError), ledger(mtiny):
        taken = pool.allocate(1, 0)
    pool.release(taken)


@pytest.mark.parametrize("name", NAMES)
def test_drafters(mtiny, name):
    ids, params = copied(40), narrow(replace(GREEDY, max_tokens=30))
    texts = texts_of(mtiny, [ids], params)
    out = drafting(mtiny, name, texts).generate(ids, params)[0]
    eq([out], [texts[0][1]])
    rate = out.speculation.acceptance_rate
    assert (out.speculation.drafted == 0) == (name == "EMPTY")
    assert {"ORACLE": rate == 1, "SELF": rate == 1, "FIXED": rate < 0.2, "EMPTY": rate == 0}.get(name, 0 < rate < 1)


def test_the_constant_model_has_the_logits_it_is_given(tmp_path):
    llm = constant(tmp_path / "v1", log_of([0.5, 0.3, 0.2], first=40))
    for ids in ([5], prompt(30)):
        out = llm.generate(ids, replace(GREEDY, max_tokens=4, logprobs=3))[0]
        assert out.token_ids == (40,) * 4
        for entry in out.logprobs:
            assert [math.exp(logprob) for _, logprob in entry.top] == pytest.approx([0.5, 0.3, 0.2], abs=1e-6)


def test_a_watched_rule_tells_rounds(mtiny):
    texts = texts_of(mtiny, [IDS], replace(GREEDY, max_tokens=12))
    llm, rule = watched(drafting(mtiny, "NOISY", texts, draft_tokens=3))
    out = llm.generate(IDS, replace(GREEDY, max_tokens=12))[0]
    written = [token for made in rule.rounds for token in made.emitted]
    assert written[:12] == list(out.token_ids)
    assert rule.rounds[0].position == 30
    for made in rule.rounds:
        assert len(made.laws) == len(made.draft) + 1
        assert made.emitted[: made.accepted] == made.draft[: made.accepted]
