"""Modes as they are typed."""

import pytest

from glimpse.acceptance.lossy import LOSSY
from glimpse.bench.tradeoff.modes import parse_mode, usual_modes
from glimpse.errors import ArgumentError


@pytest.mark.parametrize(
    ("text", "name", "drafter", "lossy", "drafts"),
    [
        ("plain", "plain", "none", None, None),
        ("sparse", "sparse@5", "sparse", None, 5),
        ("sparse@3", "sparse@3", "sparse", None, 3),
        ("slowfast", "slowfast", "slowfast", "slowfast", None),
        ("slowfast@16", "slowfast@16", "slowfast", "slowfast", 16),
        ("slowfast-exact", "slowfast-exact", "slowfast", None, None),
        ("cactus:1", "cactus:1", "sparse", "cactus:1", 5),
        ("typical@8", "typical:0.3@8", "sparse", "typical:0.3", 8),
    ],
)
def test_what_is_typed(text, name, drafter, lossy, drafts):
    mode = parse_mode(text, 5)
    assert (mode.name, mode.drafter, mode.lossy, mode.drafts) == (name, drafter, lossy, drafts)
    assert parse_mode(mode.name, 5) == mode


@pytest.mark.parametrize(
    ("text", "said"),
    [("cactus:x", "'x' is no number"), ("sparse@0", "'0' is no draft length"),
     ("cactus:1@", "'' is no draft length from 1 to 256"), ("none", "drafts nothing"),
     ("cactos", "mode 'cactos' is none of .*slowfast-exact.*typical.*sparse")],
)  # fmt: skip
def test_what_is_wrong_is_named(text, said):
    with pytest.raises(ArgumentError, match=said):
        parse_mode(text, 5)


def test_every_rule_is_among_the_usual_modes():
    modes = usual_modes([3, 5, 10])
    assert len({mode.key for mode in modes}) == len(modes)
    rules = {mode.lossy.partition(":")[0] for mode in modes if mode.lossy}
    assert rules == {*LOSSY.names()}
    assert [mode.name for mode in modes[:4]] == ["plain", "sparse@3", "sparse@5", "sparse@10"]
    assert {mode.drafts for mode in modes if mode.lossy == "cactus:1"} == {3, 5, 10}
