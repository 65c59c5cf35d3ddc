"""`plan_check` reads the forms of result files there are, and its methods are right where the right value is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.plan_cells import DTYPE, Cell, Law, Measured, _cells
from benchmarks.plan_check import details, errors, methods, targets
from benchmarks.plan_judge import METHODS, TABLE, fitted, judged

from glimpse.bench.results import Result
from glimpse.planning import ByDepth, find_device, speedup
from glimpse.planning.overheads import floor_of, terms_of

H200 = find_device("h200")
CHANCES = ByDepth((0.9, 0.85))


def made_up(name, device=H200, budget=512):
    """A cell whose steps take what `device` says."""
    shape, size = name.split()
    context, rows = map(int, size.split("x"))
    cell = Cell(f"{shape} {size}", context, rows, budget, ())
    steps = [_steps(cell).plain(1.0), _steps(cell).draft(1.0), _steps(cell).verify(4, 1.0), _steps(cell).bare(1.0, 8)]
    priced = [replace(own, seconds=_seconds(cell, own, device)) for own in (*steps, _steps(cell).select(1.0))]
    took = {own.name: own.seconds for own in priced}
    plain, draft = took["plain"], took["draft"] / took["plain"]
    return replace(cell, steps=tuple(priced), laws=(
        Law("sampled", CHANCES, {4: speedup(CHANCES, 4, draft, lambda _: took["verify 4"] / plain)}),
    ))  # fmt: skip


def _steps(cell):
    from benchmarks.plan_cells import _Steps

    return _Steps(cell.rows, cell.context, cell.budget)


def _seconds(cell: Cell, own: Measured, device):
    about = cell.spec, DTYPE, own.step, device.bandwidth, device.rate
    return floor_of(*about) + device.overheads.seconds(terms_of(*about, device.overheads.few_tokens))


@pytest.fixture
def cells():
    names = ("demo 8000x1", "demo 8000x64", "demo 4000x128", "demo 4000x256", "llama-3.1-8b 8000x16", "demo 600x2")
    return [made_up(name) for name in names]


def test_a_grid_of_the_tables_making_is_predicted_exactly(cells):
    runs = [entry for cell in cells for entry in judged(cell, cells, H200)]
    for method in (TABLE, "left out"):
        steps, speedups, losses = errors(runs, method)
        assert len(steps) == 4 * len(cells)
        assert max(steps) < 1e-6
        assert max(speedups) < 1e-6
        assert max(losses) == 0
    assert max(errors(runs, "floors")[0]) > 0.5
    assert all(target.ok for target in targets(runs))
    shown = [methods(runs), *details(runs)]
    assert [len(table.rows) for table in shown] == [4, 4 * len(cells), len(cells)]
    assert all(len(row) == len(table.columns) for table in shown for row in table.rows)


def test_the_fit_gives_the_tables_overheads_back(cells):
    found, right = fitted(cells, H200), H200.overheads
    assert found.layer == pytest.approx(right.layer, rel=1e-6)
    assert found.selecting == pytest.approx(right.selecting, rel=1e-6)


def test_methods_need_something_to_go_by(cells):
    calibrated = METHODS["calibration surface"]
    large = next(cell for cell in cells if cell.shape != "demo")
    assert calibrated(large, [cell for cell in cells if cell is not large], H200) is None
    assert calibrated(cells[0], cells[1:], H200).measured.shape["layers"] == 30


def test_a_wrong_choice_of_length_costs_what_it_loses(cells):
    """The table thinks drafting pays; measured, it halves the speed."""
    slow = replace(cells[1], laws=(Law("sampled", CHANCES, {4: 0.5}),))
    (entry,) = [entry for entry in judged(slow, cells, H200) if entry["method"] == TABLE]
    assert entry["laws"][0]["best_predicted"] == 4
    assert entry["laws"][0]["best_measured"] == 0
    assert entry["laws"][0]["loss"] == pytest.approx(0.5)


def result(runs, **settings):
    device = {"kind": "h200", "name": "", "cores": 1, "threads": 1}
    return Result(
        suite="decode", device=device, versions={}, commit="0" * 40, dirty=False, quick=False, settings=settings,
        runs=runs, targets=(),
    )  # fmt: skip


def test_files_of_the_bench_are_read():
    def timing(seconds):
        return {"median": seconds}

    run = {
        "name": "demo 8000x64", "context": 8000, "rows": 64, "budget": 512,
        "steps": {
            "plain": timing(4.0), "draft": timing(1.0), "verify": {"4": timing(5.0), "7": timing(6.0)},
            "verify_8": {"without": timing(5.5), "with importance": timing(6.0)}, "select": timing(0.5),
        },
        "laws": {"sampled": {"law": "sampled", "drafted": [
            {"drafts": 4, "speedup": 1.5, "acceptance": {"measured": [0.8, 0.7]}},
            {"drafts": 7, "speedup": 1.4, "acceptance": {"measured": [0.9, 0.8, None]}},
        ]}},
    }  # fmt: skip
    (cell,) = _cells(result([run, {"cell": "demo 9x9", "error": "failed"}]))
    assert {own.name: own.seconds for own in cell.steps} == {
        "plain": 4.0, "draft": 1.0, "verify 4": 5.0, "verify 7": 6.0, "bare verify 7": 5.5, "select": 0.5,
    }  # fmt: skip
    assert cell.laws == (Law("sampled", ByDepth((0.9, 0.8)), {4: 1.5, 7: 1.4}),)
    assert cell.steps[2].step.tokens == 5


def test_files_of_peers_are_read():
    peers = [{"engine": "glimpse", "shape": "demo", "context": 8000, "ms": 0.6}, {"engine": "gpt-fast", "ms": 1}]
    (cell,) = _cells(result(peers))
    assert (cell.name, cell.steps[0].seconds, cell.laws) == ("demo 8000x1", 0.0006, ())
