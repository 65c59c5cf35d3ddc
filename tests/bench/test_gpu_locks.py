"""Scripts for the GPU that keep a journal: two at a time in one folder would mix what they measured."""

from __future__ import annotations

import pytest
from benchmarks import gpu_block, gpu_libra, gpu_serve, gpu_tradeoff

from glimpse.bench.folder import alone_in, script_in
from glimpse.errors import ArgumentError

SCRIPTS = [
    (gpu_block, "block", ["--questions", "none.npz", "--commit", "ab", "--out", "unused", "--work"]),
    (gpu_libra, "libra_gpu", ["--out"]),
    (gpu_serve, "gpu-serve", ["--out"]),
    (gpu_tradeoff, "tradeoff", ["--cells", "64x2", "--out"]),
]


@pytest.mark.parametrize(("script", "suite", "argv"), SCRIPTS, ids=[suite for _, suite, _ in SCRIPTS])
def test_a_second_run_is_refused_before_anything_is_loaded(script, suite, argv, tmp_path, capsys):
    """The model and the ids are not there: without the lock, that is what it would fall over."""
    with alone_in(tmp_path, suite), pytest.raises(SystemExit) as ended:
        script.main(["--model", str(tmp_path / "none"), "--ids", str(tmp_path / "none.npz"), *argv, str(tmp_path)])
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"{suite}: {tmp_path} is in use by another run of {suite}; give another --out\n"


def test_what_a_user_got_wrong_is_one_line_and_its_exit_code(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended, script_in(tmp_path, "toy"):
        raise ArgumentError("cells: none")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "toy: cells: none\n"
    assert not any(tmp_path.iterdir()), "the lock is gone"
