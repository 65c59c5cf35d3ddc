"""The script that times admission on a GPU, tried on a CPU, whose engine reads prompts in one way only."""

from __future__ import annotations

from benchmarks import gpu_admit
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.results import read_result


class Reader:
    _tails = "reader"


class Engine:
    _reader = Reader()


def test_every_phase_is_timed_and_first_tokens_compared(tmp_path, capsys):
    folder = write_tiny_checkpoint(tmp_path / "tiny", max_position_embeddings=512)
    gpu_admit.main(["--model", str(folder), "--cells", "96x3,96x1", "--turns", "2", "--out", str(tmp_path)])
    assert len(capsys.readouterr().out.splitlines()) == 5
    result = read_result(tmp_path / "cpu-admit.json")
    assert [(run["rows"], run["differ"], run["compared"]) for run in result.runs] == [
        (3, 0, 6), (3, 0, 6), (1, 0, 2), (1, 0, 2)
    ]  # fmt: skip
    for run in result.runs:
        for turns in run["turns"].values():
            assert [min(turn.values()) > 0 for turn in turns] == [True, True]
    assert len(result.tables[0].rows) == 8


def test_ends_are_read_one_by_one_only_while_asked_for():
    with gpu_admit.reading(Engine(), gpu_admit.ALONE):
        assert Engine._reader._tails is None
    with gpu_admit.reading(Engine(), gpu_admit.TOGETHER):
        assert Engine._reader._tails == "reader"
