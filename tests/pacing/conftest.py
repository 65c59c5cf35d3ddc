"""What several tests of pacers need."""

from types import SimpleNamespace

import pytest


@pytest.fixture
def still(monkeypatch):
    """The clock of `auto` stands still, so that the host costs nothing and every run is the same."""
    clock = SimpleNamespace(perf_counter=lambda: 0.0)
    for room in ("pacing.auto", "pacing.auto_lookout", "drafting.auto"):
        monkeypatch.setattr(f"glimpse.{room}.time", clock)
