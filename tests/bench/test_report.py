"""Tables, and the README's part between the markers."""

import pytest
from tests.bench.test_results_form import result

from glimpse.bench.report import BEGIN, END, markdown_table, plain_table, reasons, render, summary, with_block
from glimpse.errors import GlimpseError


def test_render_shows_every_target_and_why_it_falls_short():
    block = render([result()])
    assert block.startswith("## cpu-speed\n\nMeasured on A CPU, 2 cores, 2 threads")
    assert "| speedup | >= 1.8 | 2.1 | yes |" in block
    assert "| cost | <= 1.6 | 1.7 | no: falls short by 6.2%: no idea |" in block
    assert "Title:" in block


def test_a_summary_counts_the_targets_met():
    assert "| [speed](docs/results.md#cpu-speed) | A CPU | 1 of 2 |" in summary([result()], "docs/results.md")


def test_the_block_is_replaced_and_nothing_else():
    text = f"# Head\n\n{BEGIN}\nold\n{END}\n\nTail\n"
    new = with_block(text, "new")
    assert new == f"# Head\n\n{BEGIN}\n\nnew\n\n{END}\n\nTail\n"
    assert with_block(new, "new") == new


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{BEGIN}{END}", f"{BEGIN}{END}{END}"])
def test_wrong_markers_are_refused(text):
    with pytest.raises(GlimpseError, match="once each"):
        with_block(text, "new")


def test_tables():
    assert plain_table(["a", "long"], [["value", "b"]]) == "a      long\nvalue  b"
    assert markdown_table(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"


def test_reasons(tmp_path):
    path = tmp_path / "notes.toml"
    assert reasons(path) == {}
    path.write_text('[speed]\n"cost" = "no idea"\n', encoding="utf-8")
    assert reasons(path) == {"speed": {"cost": "no idea"}}
    path.write_text("[speed\n", encoding="utf-8")
    with pytest.raises(GlimpseError, match=r"notes.toml"):
        reasons(path)
