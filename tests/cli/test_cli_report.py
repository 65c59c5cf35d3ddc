"""The small report below a text, where something in it calls for a line of its own."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from glimpse.cli.report import choices, of_output, show, telling
from glimpse.outputs import GenerationOutput, Speculation, Timing, Usage
from glimpse.speculation import Choice


def shown(speculation, usage=None, **settings):
    output = GenerationOutput(
        text="a", token_ids=(1,), finish_reason="stop", usage=usage or Usage(1, 1), speculation=speculation,
        timing=Timing(0.1, 0.1, 1), settings=settings,
    )  # fmt: skip
    console = Console(file=StringIO(), width=300)
    console.print(of_output(output))
    return console.file.getvalue()


def test_steps_without_a_graph_are_told_with_their_reason():
    speculation = Speculation(graph_steps=3)
    assert "graph" not in shown(speculation)
    speculation.eager_steps["logprobs asked for"] += 5
    assert "5 steps ran without a CUDA graph, slower: logprobs asked for" in shown(speculation)
    assert speculation.to_json()["eager_steps"] == {"logprobs asked for": 5}


def test_who_drafted_nothing_is_told_and_counts_of_one_are_no_plurals():
    assert "drafter" not in shown(Speculation(plain_steps=3))
    assert "drafter sparse · pacer entropy · acceptance coupled · nothing was drafted: 3 plain steps" in shown(
        Speculation(drafter="sparse", pacer="entropy", plain_steps=3)
    )
    speculation = Speculation(drafter="lookup", plain_steps=1)
    speculation.record(1, 0)
    once = shown(speculation)
    assert "1 token after" in once
    assert "0 of 1 drafted token accepted in 1 round, " in once
    assert "1 plain steps" not in once


def test_a_lossy_text_is_said_to_be_one():
    assert "lossy" not in shown(Speculation())
    relaxed = shown(Speculation(lossy="typical:0.3", lossless=False, relaxed=4))
    assert "lossy typical:0.3: the text may differ from the model's own; 4 tokens were accepted by the" in relaxed
    trusted = shown(Speculation(lossy="slowfast", lossless=False, trusted=1200))
    assert "1,200 tokens were written without a verification" in trusted


@pytest.mark.parametrize(("prompt", "whole"), [(2000, True), (2008, True), (2009, False)])
def test_a_text_that_fast_steps_read_whole_strays_nowhere(prompt, whole):
    speculation = Speculation(lossy="slowfast", lossless=False, trusted=290)
    said = shown(speculation, Usage(prompt, 300), budget_floor=2308)
    assert ("all by steps that read the whole context: up to 2,308 tokens nothing is lost, or gained" in said) == whole
    assert "whole context" not in shown(Speculation(lossy="typical:0.3", relaxed=3), Usage(9, 9), budget_floor=256)


@pytest.mark.parametrize(("there", "said"), [(True, "device cpu"), (False, "device cpu (no NVIDIA GPU here)")])
def test_the_settings_say_why_a_cpu(monkeypatch, there, said):
    monkeypatch.setattr("glimpse.engine.place.has_gpu", lambda: there)
    assert telling({"device": "cpu", "seed": 1}) == f"{said} · seed 1"


def test_tables_in_a_file_are_not_cut_at_eighty_columns(capsys):
    names = ("none", "lookup", "suffix", "racer", "racer+suffix", "sparse", "another+one", "and+one+more")
    speculation = Speculation(drafter="auto")
    speculation.choices.append(Choice(1, "racer+suffix", dict.fromkeys(names, 1.0), 0.1))
    show(*choices(speculation))
    assert "racer+suffix sparse another+one and+one+more" in capsys.readouterr().out
