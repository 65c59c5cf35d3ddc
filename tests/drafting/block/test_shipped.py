"""The adapter that comes with Glimpse: what it is, that it is packaged, and that `--drafter block` finds it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.adapters import write_random_adapter

from glimpse import SamplingParams
from glimpse.drafting.block import shipped
from glimpse.drafting.block.adapter import config_of, read_adapter
from glimpse.engine.build import refuse_unused
from glimpse.engine.options import EngineOptions
from glimpse.errors import ArgumentError, ModelError
from glimpse.model.demo import DEMO, cache_folder, is_cached
from glimpse.model.load import load_checkpoint
from glimpse.planning.models import DEMO_SPEC
from glimpse.training.recipe import Recipe

ROOT = Path(__file__).parents[3]
GREEDY = SamplingParams(max_tokens=12, temperature=0, ignore_eos=True)


def test_the_demo_models_is_whole_small_and_of_the_recipe_that_is_the_default():
    config = config_of(shipped.DEMO)
    assert read_adapter(shipped.DEMO, DEMO_SPEC, config.fingerprint).config == config
    assert shipped.DEMO.stat().st_size <= 20e6
    recipe = dict(config.recipe)
    assert len(recipe.pop("text")) == 12
    assert recipe == Recipe().as_json()


def test_its_log_ends_with_the_last_step():
    points = [json.loads(line) for line in shipped.DEMO.with_suffix(".log").read_text().splitlines()]
    assert [point["step"] for point in points] == list(range(250, 4001, 250))
    assert f"{points[-1]['accepted']:.2f}" == "1.88"


def test_a_wheel_holds_it():
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["glimpse"]
    package = ROOT / "src" / "glimpse"
    packaged = {path for glob in named for path in package.glob(glob)}
    assert set(shipped.FOLDER.iterdir()) <= packaged


@pytest.mark.skipif(not is_cached(), reason="the demo model is not in the cache folder")
def test_it_is_the_demo_models():
    found = load_checkpoint(cache_folder() / DEMO.file_name)
    assert shipped.shipped_for(found.fingerprint) == shipped.DEMO


def test_a_model_that_has_one_needs_no_name_for_it(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    write_random_adapter(tmp_path / "other.safetensors", tiny, fingerprint="0" * 16)
    own = write_random_adapter(tmp_path / "tiny.safetensors", tiny)
    llm = tiny.variant(drafter="block", pacer="fixed", draft_tokens=4)
    assert (llm.settings["adapter"], llm.settings["block_mode"]) == (str(own), "auto")
    (plain,), (drafted,) = (arm.generate([[5, 9, 14, 5]], GREEDY) for arm in (tiny, llm))
    assert drafted.token_ids == plain.token_ids
    assert drafted.speculation.drafted > 0


@pytest.mark.parametrize("drafter", ["block", "auto"])
def test_demo_is_the_name_of_one(tiny, drafter):
    """Another model is told that it is not its own."""
    refuse_unused(EngineOptions(drafter, adapter="demo"))
    with pytest.raises(ModelError, match=r"made for Smollm2 135M .* train an adapter for it with glimpse train block"):
        tiny.variant(drafter=drafter, pacer=None, adapter="demo")


def test_a_model_without_one_is_told_so(tiny):
    with pytest.raises(ArgumentError, match=r"Glimpse brings one for demo only: name the file .* \(--adapter\)$"):
        tiny.variant(drafter="block")


def test_a_folder_that_was_lost_is_no_traceback(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "gone")
    with pytest.raises(ArgumentError, match="Glimpse brings one for no model only"):
        tiny.variant(drafter="block")
