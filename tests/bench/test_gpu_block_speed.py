"""What blocks are worth in tokens a second, tried on a CPU at toy size, on a model and on its twin."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import gpu_block_speed
from tests.adapters import write_random_adapter
from tests.tiny import write_tiny_checkpoint

from glimpse import LLM
from glimpse.bench import grow
from glimpse.bench.grow_plan import GrownShape
from glimpse.bench.results import read_result
from glimpse.errors import ModelError


@pytest.fixture
def asked(tmp_path, monkeypatch):
    monkeypatch.setitem(grow.SHAPES, "big", GrownShape(hidden_size=96, heads=16, kv_heads=4, head_dim=16, layers=3))
    folder = write_tiny_checkpoint(tmp_path / "tiny")
    write_random_adapter(tmp_path / "a", LLM(folder, drafter="none"), scale=0.05)
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "questions.npz", **{f"q{place}": draw.integers(3, 300, 12) for place in range(6)})
    files = {"model": folder, "ids": tmp_path / "questions.npz", "adapter": tmp_path / "a", "out": tmp_path / "out"}
    sizes = {"models": "demo,big", "tokens": 16, "turns": 2, "laws": "greedy", "rows": 2, "commit": "ab" * 20}
    return [word for name, value in (files | sizes).items() for word in (f"--{name}", str(value))]


def test_all_arms_of_a_model_and_of_its_twin(asked, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_block_speed, "TEXTS", 2)
    gpu_block_speed.main(asked)
    results = [read_result(tmp_path / "out" / f"cpu-block_speed-{name}.json") for name in ("demo", "big")]
    (small,), (big,) = (result.runs for result in results)
    assert [small["cell"], big["cell"]] == ["demo x2, greedy", "big x2, greedy"]
    for result in results:
        assert len(result.tables[0].rows) == len(gpu_block_speed.ARMS)
        assert [target.what.split(":")[1] for target in result.targets] == [
            f" blocks by price over {rival}" for rival in ("the better fixed way", "plain decoding")
        ]
    for own, other in zip(small["arms"], big["arms"], strict=True):
        assert own["same"] == other["same"] == 1
        assert len(own["speeds"]) == (1 if own["arm"] in gpu_block_speed.SLOW else 2)
    capsys.readouterr()
    gpu_block_speed.main([*asked, "--seconds", "0"])
    assert not capsys.readouterr().out, "a cell that is known is not measured again, and no other is begun"


def test_short_turns_are_many_and_long_ones_few():
    options = SimpleNamespace(turns=8, eager_turns=1)
    for seconds, rows, many in ((0.05, 8, 8), (0.3, 8, 3), (0.9, 8, 2), (0.9, 1, 4)):
        counts = gpu_block_speed.turns_of(seconds, rows, options)
        assert set(counts) == set(gpu_block_speed.ARMS)
        assert {counts.pop(arm) for arm in gpu_block_speed.SLOW} == {1}
        assert set(counts.values()) == {many}


def test_an_adapter_of_another_model_is_refused(asked, tmp_path):
    other = write_tiny_checkpoint(tmp_path / "other", seed=5)
    with pytest.raises(ModelError, match="this model is another"):
        gpu_block_speed.main([*asked, "--model", str(other)])


def test_turns_with_a_capture_are_left_out_where_there_are_others():
    plain, block = (
        [{"tokens": tokens, "seconds": 1.0, "captured": captured} for tokens, captured in turns]
        for turns in ([(10, False)] * 3, [(1, True), (12, False), (14, False)])
    )
    assert gpu_block_speed._times(block, plain) == pytest.approx(1.3)
    assert gpu_block_speed._times(block[:1], plain[:1]) == pytest.approx(0.1)
    assert gpu_block_speed._in_all(block, plain) == pytest.approx(27 / 30)
    assert gpu_block_speed._in_all(block[1:2], plain) == pytest.approx(1.2), "turns that one of them alone had are none"
