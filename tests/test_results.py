"""The committed result files have the right form, say where they fall short, and are what the README shows."""

from pathlib import Path

import pytest

from glimpse.bench.report import has_markers, read_results, render, with_block
from glimpse.bench.results import read_result

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "results"
FILES = sorted(FOLDER.glob("*.json"))
NONE_YET = "no result files yet in benchmarks/results (make prove writes them)"


@pytest.mark.parametrize("path", FILES or [pytest.param(None, marks=pytest.mark.skip(reason=NONE_YET))], ids=str)
def test_a_result_file_has_the_right_form(path):
    result = read_result(path)
    assert path.name == result.file_name
    assert not result.quick, "a smoke run's values mean nothing"
    for target in result.targets:
        if not target.ok:
            assert target.shortfall in target.note, f"{target.what}: the note does not say by how much"
            assert "not written down" not in target.note, f"{target.what}: say why in benchmarks/notes.toml"


@pytest.mark.skipif(not FILES, reason=NONE_YET)
def test_the_readme_shows_the_results():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if not has_markers(readme):
        pytest.skip("README.md has no markers for the tables")
    assert with_block(readme, render(read_results(FOLDER))) == readme, "run python -m benchmarks.table"
