"""An engine that may hold few graphs writes the same text: those used longest ago are dropped and captured anew."""

from __future__ import annotations

import gc

import pytest

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from engine.device.standins import Counted
from engine.device.test_device_blocks import few_processors
from glimpse.engine.device.graphs import _Held, uncollected
from glimpse.llm import LLM

__all__ = ["few_processors"]
SPARSE = {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 2, "budget": 0.1, "budget_floor": 6}


class Rerun(Counted):
    """Graphs that run what they were captured of, where the other ones only count."""

    def _warm_up(self, function) -> None:
        """As dear as one that compiles."""
        self.now += self.CREDIT + 1

    def _capture(self, function) -> _Held:
        self.captures += 1
        return _Held(type("Graph", (), {"replay": staticmethod(function), "reset": lambda self: None})(), 0)


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    return LLM(
        tiny_folder(tmp_path_factory.mktemp("few")), drafter="none", pacer="fixed", max_batch_size=2, device="cpu"
    )


@pytest.mark.parametrize(("most", "captures"), [(2, 2), (1, 4)])
def test_few_graphs_are_enough(llm, most, captures, monkeypatch):
    """Drafts and verifications take turns: where one graph may be held it is dropped at each. Two cover all numbers of
    rows, and where captures are dear, none is dropped for a better one."""
    prompts, params = prompts_of(llm, 9, 5), [greedy(2), greedy(5)]
    device = on_device(llm, **SPARSE)
    launcher = device._engine._launcher
    launcher.graphs = graphs = Rerun(device._engine._core, monkeypatch, most=most)
    found = device.generate(prompts, params)
    assert ids_of(found) == ids_of(llm.generate(prompts, params))
    assert len(graphs) <= most
    assert graphs.captures - len(graphs) == graphs.dropped == found[0].settings["graphs_dropped"]
    assert graphs.captures == captures if most > 1 else graphs.captures >= captures


def test_nothing_is_collected_during_a_capture():
    """A graph that a dead engine left behind would be freed then, and the capture fail."""
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
