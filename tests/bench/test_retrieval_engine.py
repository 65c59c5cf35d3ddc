"""The suite over drafters in the engine: shards of its prompts, put together, are the whole."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from benchmarks import prove
from benchmarks.retrieval_engine import SETS, arms_of, joined, pacer_of, shard_of, start, suite
from benchmarks.retrieval_figures import targets
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.results import read_result, write_result
from glimpse.bench.runner import main
from glimpse.drafting import DRAFTERS
from glimpse.errors import GlimpseError


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Result files of a tiny model, and the folder they are in."""
    folder = tmp_path_factory.mktemp("engine")
    model, out = write_tiny_checkpoint(folder / "model", max_position_embeddings=512), folder / "out"
    for name in SETS:
        lines = [json.dumps({"turns": [f"hello {name} {place}"]}) for place in range(40)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    given = ["--quick", "-m", str(model), "--threads", "1", "--out", str(out)]
    for place in (1, 2):
        assert main(suite(["none", "lookup", "auto"], folder, (place, 2)), prove.ROOT, given) == 0
    return [read_result(out / f"cpu-retrieval_engine-{place}of2.json") for place in (1, 2)]


def test_shards_are_the_whole(shards, tmp_path, capsys):
    for shard in shards:
        write_result(shard, tmp_path)
    paths = [str(path) for path in sorted(tmp_path.glob("*.json"))]
    assert start(["--join", *paths, "--out", str(tmp_path)]) == 0
    whole = read_result(tmp_path / "cpu-retrieval_engine.json")
    assert str(tmp_path / "cpu-retrieval_engine.json") in capsys.readouterr().out
    assert sorted(run["cell"] for run in whole.runs) == sorted(run["cell"] for shard in shards for run in shard.runs)
    assert {run["kind"] for run in whole.runs} == {"edit", *SETS}
    assert len(whole.runs) == 10
    assert len(whole.targets) == 1 + 2 * 10
    assert {row[0] for row in whole.tables[0].rows} == {
        f"{kind}, {mode}" for kind in ("edit", *SETS) for mode in ("greedy", "T=0.7")
    }
    assert all(row[-1] == "1 of 1" for row in whole.tables[0].rows), "every drafter writes plain decoding's text"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda first, second: [first], r"shards \[\(1, 2\)\], where every one of 1"),
        (lambda first, second: [first, first], "where every one of 2"),
        (lambda first, second: [first, replace(second, commit="1" * 40)], "commit"),
        (lambda first, second: [first, replace(second, settings=second.settings | {"tokens": 3})], "other settings"),
    ],
)
def test_what_does_not_belong_together_is_refused(shards, change, said):
    with pytest.raises(GlimpseError, match=said):
        joined(change(*shards))


def test_all_drafters_are_arms_with_a_pacer_that_suits_them():
    assert {"racer", "auto", "sparse+racer", "slowfast"} <= set(arms_of(None))
    assert "block" not in arms_of(None)
    assert (pacer_of("auto"), pacer_of("slowfast"), pacer_of("racer")) == ("auto", "boundary", "marginal")
    assert set(arms_of(None)) - {"transformers", "transformers lookup"} <= set(DRAFTERS.names())


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_a_shard_that_is_none_is_refused(text):
    with pytest.raises(GlimpseError, match="give which of how many"):
        shard_of(text)


def test_peers_are_beside_auto_where_they_run():
    speeds = {"none": 20.0, "auto": 40.0, "transformers": 10.0, "transformers lookup": 16.0}
    greedy = {name: {"tokens_per_s": speed, "text": ""} for name, speed in speeds.items()}
    cells = [{"kind": "edit", "prompt": "edit", "mode": mode, "runs": greedy} for mode in ("greedy", "T=0.7")]
    found = {target.what: (target.target, target.value) for target in targets(cells)}
    assert found["edit, greedy: auto over transformers' prompt lookup"] == (">= 1", 2.5)
    assert found["edit, greedy: auto over transformers' plain (the limit: the best peer)"] == (">= 3.6", 4.0)
    assert found["auto over plain decoding, mean of the cells"] == (">= 1.4", 2.0)
