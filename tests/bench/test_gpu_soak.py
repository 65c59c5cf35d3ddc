"""The soak of a GPU's engine, tried on a CPU: it runs through, and tells near ties from faults."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from random import Random

import pytest
import torch
from benchmarks import gpu_soak
from tests.tiny import write_tiny_checkpoint

from glimpse import LLM, SamplingParams
from glimpse.bench.results import read_result
from glimpse.bench.soak import Gap, Mix, make_jobs, soak, windows
from glimpse.errors import ArgumentError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("soak") / "tiny", max_position_embeddings=256)


@pytest.fixture(scope="module")
def llm(folder):
    return LLM(folder, drafter="none", pacer="fixed", dtype="float32", max_batch_size=4, max_context=100)


def test_soaks_until_the_time_is_over(folder, tmp_path, capsys):
    asked = [
        "--device",
        "cpu",
        "--dtype",
        "float32",
        "-m",
        str(folder),
        "--requests",
        "8",
        "--longest",
        "60",
        "--seeds",
    ]
    sizes = ["2", "--tokens", "12", "--rows", "4", "--out", str(tmp_path), "--commit", "ab" * 20]
    assert gpu_soak.main([*asked, *sizes]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["arm"]["reserve"] for line in lines] == ["full", "next"]
    assert last == "2 soaks, 16 requests compared, 0 near ties, 0 faults"
    result = read_result(tmp_path / "cpu-soak.json")
    assert result.targets[0].value == 0
    assert gpu_soak.main([*asked, *sizes, "--seconds", "-1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 soaks, 8 requests")


def test_a_wrong_token_is_a_fault_and_a_near_tie_is_not(llm, monkeypatch):
    params = SamplingParams(temperature=0.0, max_tokens=6, ignore_eos=True)
    prompt = list(range(5, 25))
    right = tuple(llm.generate([prompt], params)[0].token_ids)
    wrong = (*right[:3], (right[3] + 1) % 300, *right[4:])
    far = gpu_soak.gap(llm, prompt, params, right, wrong)
    assert not far.near
    assert gpu_soak.gap(llm, prompt, params, right, right[:4]) is None
    monkeypatch.setitem(gpu_soak.MOVES, torch.float32, 1e3)
    near = gpu_soak.gap(llm, prompt, params, right, wrong)
    assert near.near
    assert (near.margin, near.limit) == (far.margin, 2e3)


def test_what_is_near_is_counted_not_blamed(llm):
    mix, other = Mix(requests=6, longest=40, most_tokens=8, cancelled=0.0, preempted=0.0), llm.variant()
    found = soak(llm, _Liar(llm), mix, 0, lambda prompt, params, right, got: Gap(1.0, 4.0))
    assert found.faults == []
    assert found.nearest == 0.25
    assert found.counts["near ties"] == found.counts["compared"] == 6
    blamed = soak(other, _Liar(llm), mix, 0, lambda prompt, params, right, got: Gap(5.0, 4.0)).faults
    assert len(blamed) == len(soak(other, _Liar(llm), mix, 0).faults) == 6
    assert "margin 5.000, limit 4.000" in blamed[0]


def test_prompts_are_pieces_of_the_texts(llm):
    texts = [list(range(10, 100)), list(range(150, 220))]
    jobs = make_jobs(Mix(requests=40, longest=90, most_tokens=4), Random(1), 300, windows(texts))
    flat = [set(itertools.pairwise(text)) for text in texts]
    for job in jobs:
        pairs = list(itertools.pairwise(job.prompt))
        assert sum(pair not in flat[0] | flat[1] for pair in pairs) <= 1
    assert len({len(job.prompt) for job in jobs}) > 10


def test_bfloat16_wants_real_text(folder):
    with pytest.raises(ArgumentError, match="bfloat16 needs --ids"):
        gpu_soak.main(["--device", "cpu", "-m", str(folder)])


class _Liar:
    """Says other tokens than the model."""

    def __init__(self, llm):
        self._llm = llm

    def generate(self, prompts, params):
        return self._llm.generate([[7, *prompts[0][1:], 7]], SamplingParams(max_tokens=2, temperature=0.0))


def test_of_some_requests_the_reference_is_decoded_alone_and_of_the_rest_together(llm, monkeypatch):
    """What only a batch gets wrong is wrong beside those that were alone."""
    generate, mix = LLM.generate, Mix(7, 30, 6, cancelled=0)
    assert soak(llm.variant(), llm, mix, 3, alone=3).faults == []

    def wrong_together(self, prompts, params):
        outputs = generate(self, prompts, params)
        return [replace(output, token_ids=(0,)) for output in outputs] if len(prompts) > 1 else outputs

    monkeypatch.setattr(LLM, "generate", wrong_together)
    faults = soak(llm.variant(), llm, mix, 3, alone=3).faults
    assert [int(fault.split()[1]) for fault in faults] == [1, 2, 4, 5]
