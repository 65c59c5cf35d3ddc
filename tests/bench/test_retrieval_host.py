"""The host drafters' timing runs with every drafter it names; what it times is real drafting."""

import numpy as np
import pytest
from benchmarks import prove, retrieval_host
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.results import read_result
from glimpse.bench.runner import main


@pytest.mark.parametrize("name", retrieval_host.ARMS)
def test_every_arm_is_timed_and_drafts(name):
    text = np.tile(np.arange(5, 45), 20)
    cell = retrieval_host.measure(name, text, 2, 200, 4)
    assert cell["nodes_a_row"] >= 1
    assert cell["step_ms"] == sorted(cell["step_ms"])
    assert cell["step_ms"][0] > 0


def test_the_suite_writes_a_result(tmp_path):
    model = write_tiny_checkpoint(tmp_path / "model")
    (tmp_path / "text").mkdir()
    words = " ".join(f"word{n % 37} and {n}" for n in range(2000))
    (tmp_path / "text" / "book.txt").write_text(words, encoding="utf-8")
    out = tmp_path / "out"
    given = ["--quick", "-m", str(model), "--text", str(tmp_path / "text"), "--threads", "1", "--out", str(out)]
    assert main(retrieval_host.SUITE, prove.ROOT, given) == 0
    result = read_result(out / "cpu-retrieval_host.json")
    assert [target.what for target in result.targets] == ["racer x1: ms of a step"]
    assert len(result.tables[0].rows) == 2 * len(retrieval_host.ARMS)
