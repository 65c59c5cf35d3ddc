"""From steps to lanes to a figure."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.timeline.draw import timeline
from glimpse.bench.timeline.lanes import Lane, lanes_of
from glimpse.bench.timeline.record import Traffic, record
from glimpse.engine.watch import Did, Instant, Seen
from glimpse.llm import LLM

P, D, V, ONE = Did.PREFILL, Did.DRAFT, Did.VERIFY, Did.PLAIN
SVG = "{http://www.w3.org/2000/svg}"


def step(at, did, *, requests="ab", end=True, steps=1, slots=None):
    """A step of rows 0, 1, ... at a time."""
    rows = list(range(len(did))) if slots is None else slots
    none = [0] * len(did)
    own = [requests[row] for row in rows]
    return Seen(Instant(at), Instant(at + 1) if end else None, rows, own, did, none, none, steps)


def test_a_letter_a_step():
    lanes = lanes_of([step(0, [P]), step(1, [D, P]), step(2, [D, D], steps=2), step(4, [V, ONE])])
    assert [lane.steps for lane in lanes] == ["pdddv", " pdd1"]
    assert [lane.starts for lane in lanes] == [[0], [1]]
    assert [lane.steps for lane in lanes_of([step(0, [D, ONE], steps=3), step(3, [P], requests="cd")], 2)] == [
        "dd",
        "11",
    ]


def test_another_request_in_a_row_is_marked():
    (lane,) = lanes_of([step(0, [P]), step(1, [ONE]), step(2, [P], requests="c"), step(3, [D], requests="c")])
    assert (lane.steps, lane.starts) == ("p1pd", [0, 2])


def test_parts_that_a_device_reads_are_heard_early_and_share_a_step():
    """They have a beginning only; a row's next part is another step."""
    parts = [step(5, [P], end=False, slots=[1]), step(6, [P], end=False, slots=[0]), step(7, [P], end=False, slots=[1])]
    lanes = lanes_of([step(0, [D, D]), *parts, step(3, [V, V])])
    assert [lane.steps for lane in lanes] == ["dvp ", "dvpp"]


def test_nothing_seen_is_no_lane():
    assert lanes_of([]) == []
    assert "no step" in timeline([], "nothing", "")


def test_a_figure_has_a_shape_for_every_run_of_steps():
    page = ElementTree.fromstring(timeline([Lane(3, "ppddvv1 ", [0, 4])], "A <title>", "demo & co"))
    words = [text.text for text in page.iter(f"{SVG}text")]
    assert {"A <title>", "demo & co", "prefill", "draft", "verify", "plain", "step", "row", "3"} <= set(words)
    drawn = [rect.get("class") for rect in page.iter(f"{SVG}rect")]
    # Page, five in the legend, the lane, then its runs: verifications one by one.
    assert drawn[6:] == ["idle", "violet", "blue", "orange", "orange", "green"]
    widths = [float(rect.get("width")) for rect in page.iter(f"{SVG}rect")][7:]
    assert widths == pytest.approx([250, 250, 110, 110, 125])
    style = page.find(f"{SVG}style").text
    assert "prefers-color-scheme: dark" in style


def test_a_recorded_run(tmp_path):
    folder = write_tiny_checkpoint(tmp_path / "tiny", max_position_embeddings=256)
    llm = LLM(folder, drafter="sparse", pacer="feedback", budget_floor=38, max_batch_size=2)
    free = llm.loaded.pool.free_pages
    prompts = [list(range(5, 65)), list(range(9, 69))]
    lanes = lanes_of(record(llm.loaded, llm._engine, prompts, Traffic(steps=70, gap=2, least=4, most=12)))
    assert [lane.slot for lane in lanes] == [0, 1]
    assert len({len(lane.steps) for lane in lanes}) == 1
    assert sum(len(lane.starts) for lane in lanes) == 4
    assert {"p", "d", "v"} <= set("".join(lane.steps for lane in lanes))
    assert lanes[1].steps[0] == " "
    assert llm.loaded.pool.free_pages == free
    assert llm._engine.watch is None
