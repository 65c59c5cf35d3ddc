"""Names of rules: built-in ones, plug-ins, and the error for an unknown one."""

from importlib.metadata import EntryPoint

import pytest

import glimpse.registry
from glimpse import acceptance
from glimpse.acceptance.exact import Coupled
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.pacing import PACERS
from glimpse.pacing.pacer import Pacer
from glimpse.registry import Registry


@pytest.fixture
def plugins(monkeypatch):
    points = [
        EntryPoint("fractions", "fractions:Fraction", "glimpse.things"),
        EntryPoint("broken", "no_such_module:thing", "glimpse.things"),
        EntryPoint("own", "os:getcwd", "glimpse.things"),
    ]

    def entry_points(group, name=None):
        return [point for point in points if point.group == group and name in (None, point.name)]

    monkeypatch.setattr(glimpse.registry, "entry_points", entry_points)
    return Registry("glimpse.things", {"own": "math:pi"})


@pytest.mark.parametrize("name", ["coupled", "matched", "rejection"])
def test_built_in_rules(name):
    assert acceptance.resolve(name).name == name


def test_unknown_rule_lists_the_known_ones():
    with pytest.raises(ArgumentError, match=r"acceptance: unknown name 'copuled'; known: coupled, matched, rejection"):
        acceptance.resolve("copuled")


def test_plugins_are_found_and_listed(plugins):
    from fractions import Fraction

    assert plugins.get("fractions") is Fraction
    assert plugins.names() == ["broken", "fractions", "own"]


def test_a_plugin_cannot_take_a_built_in_name(plugins):
    assert 3.14 < plugins.get("own") < 3.15


def test_a_broken_plugin_is_named(plugins):
    with pytest.raises(GlimpseError, match=r"'broken' \(no_such_module:thing\) cannot be imported"):
        plugins.get("broken")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("def (", "SyntaxError: invalid syntax"),
        ("raise ValueError('one\\ntwo')", "ValueError: one two"),
        ("raise SystemExit(0)", "SystemExit: 0"),
    ],
)
def test_a_plugin_may_raise_anything_at_import(plugins, tmp_path, monkeypatch, content, reason):
    (tmp_path / "no_such_module.py").write_text(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(GlimpseError, match=rf"'broken' \(no_such_module:thing\) cannot be imported: {reason}"):
        plugins.get("broken")


def test_rules_are_what_the_registry_says():
    assert acceptance.REGISTRY.get("coupled") is Coupled


class Half(Pacer):
    """A plug-in's pacer that leaves some methods out."""

    def admit(self, rows):
        """Written."""

    def decide(self, rows, room):
        """Written."""


class Whole(Half):
    """One that has them all, and nothing that a pacer may leave out."""

    def trim(self, rows):
        """Written."""

    def observe(self, rows, outcomes):
        """Written."""

    def retire(self, rows):
        """Written."""


def test_a_part_inherits_what_its_users_rely_on(monkeypatch):
    for name, target in (("odd", "math:pi"), ("half", f"{__name__}:Half"), ("whole", f"{__name__}:Whole")):
        monkeypatch.setitem(PACERS.builtin, name, target)
    with pytest.raises(GlimpseError, match=r"'odd' is no class that inherits glimpse\.pacing\.pacer\.Pacer"):
        PACERS.get("odd")
    with pytest.raises(GlimpseError, match="'half' has no observe, retire, trim"):
        PACERS.get("half")
    pacer = PACERS.get("whole")()
    assert (pacer.paces, pacer.candidates, pacer.rolls_back, pacer.plain_is_unknown) == (None, 0, False, False)
    with pytest.raises(GlimpseError, match=r"the pacer Whole has no build\(context\)"):
        PACERS.get("whole").build(None)
