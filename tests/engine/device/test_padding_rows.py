"""Rows that only fill a step up to a power of two touch nothing (`attention.kernels.bounds` watches)."""

from __future__ import annotations

import pytest

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.llm import LLM


@pytest.mark.parametrize("drafter", ["none", "lookup"])
def test_three_requests_in_steps_of_four_rows(tmp_path, drafter):
    """The fourth row never held a request: its tokens once began before the table of angles."""
    llm = LLM(tiny_folder(tmp_path), drafter="none", pacer="fixed", max_batch_size=4, device="cpu")
    prompts = prompts_of(llm, 20, 33, 17)
    found = on_device(llm, drafter=drafter, pacer="fixed").generate(prompts, greedy(3))
    assert ids_of(found) == ids_of(llm.generate(prompts, greedy(3)))
