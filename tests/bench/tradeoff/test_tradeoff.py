"""`glimpse bench tradeoff` on a tiny checkpoint: a whole run, its file and figure, going on, and what is refused."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.results import read_result
from glimpse.bench.tradeoff.measure import Effort, TradeoffMeasuring, speeds_of
from glimpse.bench.tradeoff.tables import frontier, worth
from glimpse.cli.app import run as main
from glimpse.outputs import GenerationOutput, Speculation, Timing, Usage

ARGV = ["--context", "64", "--tokens", "16", "--texts", "1", "--budget", "300", "--device", "cpu", "--threads", "1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tradeoff")
    text = folder / "text"
    text.mkdir()
    (text / "one.txt").write_text("The cat sat on the mat. Was it there? It was! The end; or not.\n" * 2000)
    return write_tiny_checkpoint(folder / "model", max_position_embeddings=1024), text


def run(model, out, *modes):
    folder, text = model
    return main(["bench", "tradeoff", *modes, "-m", str(folder), "--text", str(text), "--out", str(out), *ARGV])


def test_a_run_from_end_to_end_and_again(model, tmp_path, capsys):
    modes = ["sparse@3", "slowfast-exact", "slowfast", "cactus:1@3", "typical:0.1@3"]
    assert run(model, tmp_path, *modes) == 0
    result = read_result(tmp_path / "cpu-tradeoff.json")
    assert [cell["name"] for cell in result.runs] == ["plain", *modes]
    by_name = {cell["name"]: cell for cell in result.runs}
    for name in ("plain", "sparse@3", "slowfast-exact"):
        assert (by_name[name]["agreement"], by_name[name]["tv"]) == (1.0, 0.0)
    assert by_name["slowfast"]["trusted"] > 0.3
    assert by_name["cactus:1@3"]["agreement"] is None
    assert by_name["cactus:1@3"]["tv"] >= 0
    assert all(target.ok for target in result.targets)
    page = ElementTree.fromstring((tmp_path / "cpu-tradeoff.svg").read_text())
    assert len([shape for shape in page.iter() if shape.tag.endswith("circle")]) == 6
    said = capsys.readouterr()
    assert "Speed against straying" in said.out
    assert "plain" in said.err


def test_exact_modes_alone_need_no_lossy_one(model, tmp_path, capsys):
    assert run(model, tmp_path, "sparse@3") == 0
    assert "nothing to compare" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["cactos"], "mode 'cactos' is none of"),
        (["--context", "64,128"], "--context '64,128': one number"),
        (["--tokens", "4"], "--tokens 4: at least 16 is needed"),
        (["--draft", "0"], "--draft '0': lengths from 1 to 256"),
    ],
)
def test_what_is_wrong_is_named(argv, said, capsys):
    assert main(["bench", "tradeoff", *argv]) == 2
    assert said in capsys.readouterr().err


def written(tokens, drafted=0, accepted=0):
    speculation = Speculation()
    if drafted:
        speculation.record(drafted, accepted)
    return GenerationOutput(text="", token_ids=(5,) * tokens, finish_reason="stop", usage=Usage(1, tokens),
                            speculation=speculation, timing=Timing(0.1, 1.0, tokens))  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "fast", "read"), [(100, None, (100, 260)), (20, None, (36, 260)), (512, 2308, (512, 2308))]
)
def test_the_budget_told_is_what_steps_read(budget, fast, read):
    """4 sinks and 32 recent positions of sparse drafts, 4 and 256 of fast steps are read whatever is asked."""
    measuring = TradeoffMeasuring(None, None, None, "none", budget, Effort(), fast)
    assert (measuring.budget_of("sparse"), measuring.budget_of("slowfast")) == read


def test_answers_that_ramble_lower_the_proxy():
    """Of 2607.08690: L_plain / L (l + 1) / (1 + N c). The first output is no answer: its length was given."""
    found = speeds_of([written(90, 4, 3), written(40, 4, 3)], [written(90), written(20)], 1)
    assert found["reckoned"]["0.2"] == pytest.approx(20 / 40 * (3 + 1) / (1 + 4 * 0.2))
    assert found["speedup"] == pytest.approx((89 + 39) / (89 + 19))


def cell(name, speedup, tv, lossy=None):
    return {"name": name, "speedup": speedup, "tv": tv, "lossy": lossy}


def test_the_frontier_and_the_advice():
    cells = [cell("plain", 1.0, 0.0), cell("sparse", 1.4, 0.0), cell("slow", 1.2, 0.01, "a"), cell("b", 2.0, 0.05, "b")]
    assert [found["name"] for found in frontier(cells)] == ["sparse", "b"]
    assert worth(cells) == (
        "b decodes at 2.00 times the speed of plain decoding, 1.43 times that of sparse, the fastest mode that writes "
        "the model's own text; for that its laws lie 0.050 from the model's a token (TV: 0 the same, 1 nothing in "
        "common)"
    )
    assert worth(cells[:3]) == (
        "no lossy mode pays here: the fastest of them (slow) decodes at 1.20 times the speed of plain decoding, 0.86 "
        "times that of sparse, the fastest mode that writes the model's own text; use sparse"
    )
    assert worth([cells[0], cell("slow", 0.93, 0.01, "a")]) == (
        "no lossy mode pays here: the fastest of them (slow) decodes at 0.93 times the speed of plain decoding, than "
        "which no other mode that writes the model's own text is faster; use plain"
    )
    assert json.dumps(cells)
