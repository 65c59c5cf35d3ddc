"""Options of an LLM: refused by name before a checkpoint is opened."""

import os

import pytest
import torch

from glimpse.engine.options import EngineOptions
from glimpse.errors import ArgumentError
from glimpse.llm import LLM

WRONG = {
    "drafter": [["lookup"], 5],
    "pacer": [["fixed"], 5, ""],
    "acceptance": [{"coupled"}, 5, ""],
    "lossy": [5, "", "coupled", "typical:x", "typical:nan", "mentored:1", "top-k:1.5", "slowfast:3"],
    "draft_tokens": [1.5, "8", True, -1, 257],
    "budget": ["x", 0, 1.1, True, 10**400],
    "budget_floor": ["x", 1.5, -1],
    "refresh_sets": [5, ["pages"]],
    "refresh_layer": ["x", 1.5, -1],
    "dtype": [["float32"], None, "int8"],
    "device": [5, None, "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0 "],
    "max_context": [1.5, "5", 0, True],
    "max_batch_size": [1.5, "2", 0, None],
    "threads": [1.5, "2", 0, 99999999999],
    "seed": [1.5, "x", 1 << 64],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_wrong_options_are_refused_by_name_before_anything_is_loaded(monkeypatch, name, value):
    monkeypatch.setattr("glimpse.engine.loaded.open_model", lambda *_, **__: pytest.fail("opened the model"))
    threads = torch.get_num_threads()
    with pytest.raises(ArgumentError, match=name) as caught:
        LLM("demo", **{name: value})
    assert "\n" not in str(caught.value)
    assert torch.get_num_threads() == threads


def test_threads_are_limited_by_the_processors(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with pytest.raises(ArgumentError, match="threads must be a whole number >= 1 and <= 8, not 9"):
        LLM("demo", threads=9)


def test_legal_boundaries():
    EngineOptions(draft_tokens=0, budget=1, budget_floor=0)
    EngineOptions(draft_tokens=256, budget=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"drafter": "none", "draft_tokens": 3},
        {"drafter": "none", "budget": 0.5},
        {"drafter": "lookup", "budget": 0.5},
        {"drafter": "lookup", "budget_floor": 64},
        {"drafter": "sparse", "refresh_sets": "pages"},
        {"drafter": "sparse", "refresh_layer": 3},
    ],
)
def test_an_option_that_the_drafter_never_reads_is_refused(monkeypatch, options):
    monkeypatch.setattr("glimpse.engine.loaded.open_model", lambda *_, **__: pytest.fail("opened the model"))
    with pytest.raises(ArgumentError, match=f"means nothing to drafter '{options['drafter']}'"):
        LLM("demo", **options)


def test_sparse_drafts_of_a_gpus_batch_are_paced_by_fleet_where_nobody_asks():
    """Row by row, as `entropy` decides, rows draft while others verify, which a GPU does not do well."""
    for drafter, pacer in (
        ("sparse", "fleet"),
        ("refresh", "entropy"),
        ("slowfast", "boundary"),
        ("lookup", "entropy"),
    ):
        assert EngineOptions(drafter=drafter, batch_graphs=True).paced_by == pacer
        assert EngineOptions(drafter=drafter, batch_graphs=True, pacer="fixed").paced_by == "fixed"
    assert EngineOptions(drafter="sparse").paced_by == "entropy"
    assert EngineOptions(drafter="auto", batch_graphs=True).paced_by == "auto"
    with pytest.raises(ArgumentError, match="unknown option 'batch_graphs'"):
        EngineOptions().changed(batch_graphs=True)
