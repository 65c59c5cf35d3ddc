"""Lossy modes by name: how they are read, what is refused, and that exact names lead to exact rules alone."""

import pytest

from glimpse import acceptance
from glimpse.acceptance.lossy import LOSSY, Lossy
from glimpse.errors import ArgumentError


@pytest.mark.parametrize(
    ("text", "settled"),
    [("typical", "typical:0.3"), ("typical:0.1", "typical:0.1"), ("slowfast", "slowfast"), ("top-k:3", "top-k:3"),
     ("r-fuzzy:-inf", "r-fuzzy:-inf"), ("cactus:0.123456789", "cactus:0.123456789"), ("typical:inf", "typical:inf"),
     ("top-k:-0", "top-k:0"), ("typical: 1e200", "typical:1e+200")],
)  # fmt: skip
def test_modes_are_read_and_written(text, settled):
    mode = Lossy.parse(text)
    assert str(mode) == settled
    assert str(Lossy.parse(settled)) == settled
    assert mode.rule.lossless is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tipical", "lossy: unknown name 'tipical'; known: cactus, cascade-opt"),
        ("typical:x", "lossy 'typical:x': 'x' is no number; write typical or typical:NUMBER"),
        ("typical:", "is no number"),
        ("mentored:1", "lossy 'mentored' takes a number from 0 below 1, not 1"),
        ("ensemble:1.5", "lossy 'ensemble' takes a number from 0 to 1, not 1.5"),
        ("cactus:-1", "lossy 'cactus' takes a number from 0 on, not -1"),
        ("top-k:1.5", "lossy 'top-k' takes a whole number from 0 on, not 1.5"),
        ("top-k:inf", "lossy 'top-k' takes a whole number from 0 on, not inf"),
        ("r-fuzzy:nan", "lossy 'r-fuzzy' takes a number; -inf is strict, not nan"),
        ("slowfast:", "lossy 'slowfast:': '' is no number; write slowfast"),
        ("cactus:inf", "lossy 'cactus' takes a number from 0 on, not inf"),
        ("contrastive:inf", "lossy 'contrastive' takes a number from 0 on, not inf"),
        ("slowfast:2", "lossy 'slowfast' takes no strength, not 2"),
    ],
)
def test_wrong_modes_are_refused_in_one_line(text, said):
    with pytest.raises(ArgumentError) as raised:
        Lossy.parse(text)
    assert str(raised.value).startswith(said) or said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_strict_strength_and_the_grid_are_legal():
    for name in LOSSY.names():
        strengths = getattr(LOSSY.get(name), "strengths", None)
        if strengths is not None:
            for value in (*strengths.grid, strengths.usual, *([] if strengths.strict is None else [strengths.strict])):
                assert strengths.check(name, value) == value


def test_no_exact_name_leads_to_a_lossy_rule():
    assert not {*acceptance.REGISTRY.names()} & {*LOSSY.names()}
    assert all(acceptance.resolve(name).lossless for name in acceptance.REGISTRY.names())
    assert not any(LOSSY.get(name).lossless for name in LOSSY.names())
    for name in (*LOSSY.names(), "trust"):
        with pytest.raises(ArgumentError, match="acceptance: unknown name"):
            acceptance.resolve(name)


def test_a_lossy_plug_in_among_the_exact_rules_is_refused(monkeypatch):
    monkeypatch.setitem(acceptance.REGISTRY.builtin, "loose", "glimpse.acceptance.relaxed.trust:Trust")
    with pytest.raises(ArgumentError, match="acceptance 'loose' is lossy: offer it in the entry-point group glimpse"):
        acceptance.resolve("loose")
