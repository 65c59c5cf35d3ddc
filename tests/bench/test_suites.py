"""Every suite runs through in its smoke size, on a tiny model and a little text, and shows what holds for any model."""

import pytest
from benchmarks import (
    auto_cells,
    cpu_speed,
    crossover,
    end_to_end,
    equality,
    fleet,
    laws,
    pacer,
    prove,
    refresh,
    relaxed_laws,
    selector_fit,
    soak,
    sparse_acceptance,
    spine_acceptance,
    suffix_store,
)
from tests.tiny import write_tiny_checkpoint

from glimpse.bench import memory
from glimpse.bench.results import read_result
from glimpse.bench.runner import main

MUST_HOLD = "== 0"
"""Targets that hold for any model and machine; speeds and acceptance need the real ones."""


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    model = write_tiny_checkpoint(folder / "model", max_position_embeddings=2048)
    words = " ".join(f"word{n % 37} and {n}" for n in range(3000))
    (folder / "text").mkdir()
    (folder / "text" / "book.txt").write_text(words, encoding="utf-8")
    return ["--quick", "-m", str(model), "--text", str(folder / "text"), "--threads", "1", "--out", str(folder / "out")]


@pytest.mark.parametrize(
    "suite",
    [equality.SUITE, laws.SUITE, pacer.SUITE, sparse_acceptance.SUITE, sparse_acceptance.SWEEP, end_to_end.SUITE,
     cpu_speed.SUITE, refresh.SUITE, fleet.SUITE, soak.SUITE, spine_acceptance.SUITE, auto_cells.SUITE,
     suffix_store.SUITE, crossover.SUITE, selector_fit.SUITE, selector_fit.CONFIRM, relaxed_laws.SUITE],
    ids=lambda suite: suite.name,
)  # fmt: skip
def test_a_suite_runs_through(suite, given, monkeypatch):
    monkeypatch.setattr(memory, "measure", lambda *_, **__: {"peak_bytes": 3, "weight_bytes": 2, "cache_bytes": 1})
    assert main(suite, prove.ROOT, given) == 0
    result = read_result(prove.Path(given[-1]) / f"cpu-{suite.name}.json")
    assert result.quick
    wrong = [target.what for target in result.targets if target.target == MUST_HOLD and not target.ok]
    assert not wrong


def test_prove_knows_the_suites():
    known = {suite.name for suite in (equality.SUITE, laws.SUITE, pacer.SUITE, sparse_acceptance.SUITE,
                                      end_to_end.SUITE, cpu_speed.SUITE, refresh.SUITE, fleet.SUITE, auto_cells.SUITE,
                                      suffix_store.SUITE, crossover.SUITE)}  # fmt: skip
    assert set(prove.SUITES) == known
