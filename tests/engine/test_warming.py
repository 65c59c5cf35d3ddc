"""A warm-up leaves nothing behind but what is ready."""

from __future__ import annotations

import pytest

from glimpse.engine.options import EngineOptions
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from tiny import write_tiny_checkpoint


@pytest.mark.parametrize("options", [{"drafter": "none"}, {"drafter": "suffix", "suffix_store": "mine"}])
def test_it_takes_no_page_and_changes_no_text(tmp_path, options):
    folder = write_tiny_checkpoint(tmp_path / "tiny", max_position_embeddings=64)
    cold, llm = (LLM(folder, device="cpu", prefix_reuse=False, **options) for _ in range(2))
    free = llm.loaded.pool.free_pages
    found = llm.warm_up()
    assert found.graphs == 0
    assert str(found).startswith("0 graphs and what they need, in ")
    assert llm.loaded.pool.free_pages == free
    params = SamplingParams(max_tokens=12, temperature=0.8, seed=4, ignore_eos=True)
    assert llm.generate([[5, 6, 7]], params)[0].token_ids == cold.generate([[5, 6, 7]], params)[0].token_ids


def test_a_store_of_texts_stays_empty(tmp_path, monkeypatch):
    """What is tried out would be kept in it, and drafted from."""
    monkeypatch.setattr("glimpse.engine.warming.run_all", lambda *given: pytest.fail("decoded"))
    folder = write_tiny_checkpoint(tmp_path / "tiny")
    LLM(folder, device="cpu", drafter="suffix", suffix_store="mine").warm_up()
    plain = LLM(folder, device="cpu", drafter="none")
    assert plain.options.suffix_store is EngineOptions().suffix_store is None
    with pytest.raises(pytest.fail.Exception, match="decoded"):
        plain.warm_up()
