"""The million-token check at small size: a few thousand tokens of a tiny model, every one judged; and it sees a bug."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from benchmarks import million
from benchmarks.million_judges import Text, judged, outright, plain_path
from benchmarks.million_rows import disturbed, together
from tests.mutants.catalogue import EVERY
from tests.tiny import write_tiny_checkpoint

from glimpse.bench.decode.cell import params_of
from glimpse.bench.results import read_result
from glimpse.llm import LLM
from glimpse.sampling.resolve import resolve

COMMIT = "0" * 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_checkpoint(tmp_path_factory.mktemp("million") / "model", max_position_embeddings=256)


@pytest.fixture
def given(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(million, "DRAFTED", 1)  # the texts of this model hardly ever repeat themselves
    out = tmp_path / "out"
    return [
        "--model", str(folder), "--device", "cpu", "--dtype", "float32", "--rows", "9", "--prompt", "60", "--output",
        "24", "--arms", "sparse:fixed:3,lookup:fixed:4,sparse:fixed:8", "--out", str(out), "--commit", COMMIT,
    ]  # fmt: skip


def result(given):
    return read_result(million.Path(given[given.index("--out") + 1]) / "cpu-million_float32.json")


def test_every_token_of_a_few_thousand_is_plain_decodings(given):
    assert million.main([*given, "--tokens", "2500"]) == 0
    found = result(given)
    assert sum(run["tokens"] for run in found.runs) >= 2500
    assert {run["arm"] for run in found.runs} == {"sparse:fixed:3", "lookup:fixed:4", "sparse:fixed:8"}
    assert sum(run["differ"] for run in found.runs) == 0
    assert sum(run["drafted"] for run in found.runs) > sum(run["accepted"] for run in found.runs) > 0
    wrong, ties, drafted = (target.value for target in found.targets)
    assert (wrong, ties) == (0, 0)
    assert drafted == min(map(million.drafted_share, million.by_arm(list(found.runs)).values()))


def test_a_bug_is_seen_and_fails(given):
    """Positions off by one in verification: many tokens that plain decoding would not have written, far from ties."""
    with EVERY["position off by one"].installed():
        assert million.main([*given, "--tokens", "200"]) == 1
    wrong = next(target for target in result(given).targets if "would not have written" in target.what)
    assert wrong.value > 20


def test_an_interrupted_run_goes_on(given, monkeypatch):
    calls, real = [], million.one_batch

    def counted(*of):
        calls.append(of[3])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*of)

    monkeypatch.setattr(million, "one_batch", counted)
    with pytest.raises(KeyboardInterrupt):
        million.main([*given, "--tokens", "600"])
    assert million.main([*given, "--tokens", "600"]) == 0
    assert calls == [0, 1, 1, 2]


def test_one_wrong_token_is_one_difference_with_its_margin(folder):
    """Behind it the text is judged as it stands."""
    llm = LLM(folder, drafter="none", pacer="fixed", device="cpu", max_batch_size=2)
    params = params_of(0.7, 3, 12)
    prompts = [list(range(40, 70)), list(range(100, 115))]
    texts = [Text(ids, list(llm.generate([ids], params)[0].token_ids), resolve(params)) for ids in prompts]
    texts[1].output[5] = (texts[1].output[5] + 1) % 300
    vocab = llm.tokenizer.vocab_size
    with plain_path(llm, texts) as plain:
        count, found = judged(plain, texts, vocab)
    assert count == 24
    assert (found[0].row, found[0].position) == (1, 5)
    assert {one.row for one in found} == {1}
    assert found[0].margin > million.limit_of("float32", 0.7)
    assert llm.loaded.pool.free_pages == llm.loaded.pool.pages


def test_the_bitwise_mode_compares_texts_outright(folder):
    """Every token behind a difference counts; a text that ends early lacks the rest."""
    llm = LLM(folder, drafter="none", pacer="fixed", device="cpu", max_batch_size=3)
    params = [params_of(0.7 * row, row, 10) for row in range(3)]
    prompts = [list(range(40 + row, 70)) for row in range(3)]
    texts = [
        Text(ids, list(llm.generate([ids], own)[0].token_ids), resolve(own))
        for ids, own in zip(prompts, params, strict=True)
    ]
    assert outright(llm, texts, params) == (30, [])
    texts[0].output[4] = (texts[0].output[4] + 1) % 300
    del texts[2].output[8:]
    count, found = outright(llm, texts, params)
    assert count == 28
    assert {(one.row, one.position) for one in found} == {(0, 4), (2, 8), (2, 9)}


@pytest.fixture(scope="module")
def llm(folder):
    plain = LLM(folder, drafter="none", pacer="fixed", device="cpu", dtype="float32", max_batch_size=6, max_context=100)
    return plain.variant(budget_floor=8)


@pytest.mark.parametrize("index", [0, 1])
def test_a_batch_in_the_bitwise_mode_is_disturbed(llm, index):
    """Requests come and are put back at random, and plain decoding shares what has been read or not. In float32 the
    texts are plain decoding's on a CPU too."""
    prompts = [list(range(40 + row + 100 * index, 90 + row + 100 * index)) for row in range(6)]
    given = SimpleNamespace(exact="bitwise", dtype="float32", rows=6, output=20)
    arm, engines = million.Arm.parse("sparse:fixed:3"), million.Engines(llm)
    found = million.one_batch(engines, arm, prompts, index, index == 1, given)
    assert (found["tokens"], found["differ"]) == (120, 0)
    assert found["drafted"] > found["accepted"] > 0
    assert found["put_back"] > 0
    assert found["shared"] == 6 * index
    assert llm.loaded.pool.free_pages == llm.loaded.pool.pages


def test_rows_come_in_another_order_and_go_on_where_they_were(llm):
    prompts = [list(range(40 + row, 70 + row)) for row in range(8)]
    params = [params_of(0.7, row, 12) for row in range(8)]
    right = [out.tokens for out in together(llm, prompts, params)]
    found = disturbed(llm.variant(prefix_reuse=False), prompts, params, 3, chance=0.5)
    assert [out.tokens for out in found] == right
    assert sum(out.put_back for out in found) > 5


def test_ways_that_draft_little_show_little():
    cells = [{"arm": arm, "tokens": 1000, "drafted": drafted, "differ": 0, "beyond": [], "put_back": 0, "shared": 7}
             for arm, drafted in (("sparse:fixed:3", 900), ("sparse:entropy", 4), ("sparse:entropy", 6))]  # fmt: skip
    given = SimpleNamespace(dtype="bfloat16", exact="bitwise")
    assert [(target.value, target.ok) for target in million.targets(given, cells)] == [
        (0, True), (0, True), (0.5, False), (0, False), (21, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--dtype", "int8"], "limits were fixed for float32, bfloat16"), (["--arms", "sparse"], "DRAFTER:PACER"),
     (["--tokens", "0"], "at least 1"), (["--exact", "bitwise"], "needs a CUDA GPU")],
)  # fmt: skip
def test_wrong_arguments_are_one_line(given, capsys, more, said):
    assert million.main([*given, *more]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
