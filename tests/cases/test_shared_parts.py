"""The verdicts can fail, and the doubles do what they are called."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cases.doubles import NAMES, drafting
from tests.cases.models import GREEDY, copied, narrow, plain, prompt, ref, texts_of
from tests.cases.verdicts import Tie, chi_square, dist, eq, ledger, not_dist, tie

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
