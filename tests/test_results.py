"""The committed result files have the right form, say where they fall short, and are what README and docs/results.md
show."""

from pathlib import Path

import pytest
from benchmarks.table import blocks

from glimpse.bench.report import read_results, with_block
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
def test_the_documents_show_the_results():
    for path, block in blocks(read_results(FOLDER)).items():
        text = path.read_text(encoding="utf-8")
        assert with_block(text, block) == text, f"{path.name}: run python -m benchmarks.table"
