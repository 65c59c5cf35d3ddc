"""Blocks recorded at every position are the engine's, and the suites over them run through."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from benchmarks import block_acceptance, block_calibrator, libra_block
from benchmarks.block_acceptance import Files, asked, held_out, suite, uncalibrated
from benchmarks.block_traces import Recorder, offered, record, rounds_of
from benchmarks.libra_block_beliefs import Map, as_offered, said, taught
from benchmarks.libra_reliability import judged
from benchmarks.libra_traces import Start
from tests.adapters import write_random_adapter
from tests.tiny import write_tiny_checkpoint

from glimpse import LLM, SamplingParams
from glimpse.bench.held import parts_of
from glimpse.bench.results import read_result
from glimpse.bench.runner import main
from glimpse.drafting.block.adapter import config_of, load_whole, shapes_of, write_adapter
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.training.texts import read_corpus

ROOT = Path(__file__).resolve().parents[2]
PROMPTS = [[5, 9, 14, 5, 9], [7, 3, 22]]
LAWS = ({"temperature": 0}, {"temperature": 2.0, "seed": 3})
"""So hot that the noise they share makes draft and target agree."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("blocks")


@pytest.fixture(scope="module")
def model(folder):
    return write_tiny_checkpoint(folder / "model", max_position_embeddings=512)


@pytest.fixture(scope="module")
def llm(model):
    return LLM(model, drafter="none", pacer="fixed", device="cpu", max_batch_size=8)


@pytest.fixture(scope="module")
def adapter(llm, folder):
    recipe = {"recipe": {"length": 24}}
    return write_random_adapter(folder / "adapter.safetensors", llm, scale=0.1, **recipe)


@pytest.mark.parametrize("law", LAWS, ids=("greedy", "sampled"))
def test_a_record_counts_what_the_engine_counts(llm, adapter, law):
    """Rounds, verified and accepted tokens of the parallel way, which has a block wherever a round ends."""
    params = SamplingParams(max_tokens=40, ignore_eos=True, **law)
    texts = record(llm, PROMPTS, params, str(adapter))
    engine = llm.variant(drafter="block", adapter=str(adapter), pacer="fixed", draft_tokens=4, block_mode="parallel")
    found = 0
    for text, out in zip(texts, engine.generate(PROMPTS, params), strict=True):
        rounds, counts = rounds_of(text.starts), out.speculation
        assert text.tokens == list(out.token_ids)
        assert len(rounds) == counts.rounds + counts.plain_steps
        assert sum(verified for verified, _ in rounds) == counts.drafted > 0
        assert sum(accepted for _, accepted in rounds) == counts.accepted
        found += counts.accepted
    assert found > 0


def test_a_block_ends_where_little_is_left_of_its_chance():
    start = Start((0.5, 0.1, 0.1, 1.0), (), (1.0,) * 4, 4)
    assert offered(start) == 2
    assert as_offered(start) == Start((0.5, 0.1), (), (1.0, 1.0), 2)


def test_other_drafters_and_too_many_texts_are_refused(llm, adapter):
    with pytest.raises(GlimpseError, match="drafter 'none' makes no blocks"):
        Recorder(parts_of(llm))
    with pytest.raises(GlimpseError, match="more texts than rows"):
        record(llm, [[5, 9]] * 9, SamplingParams(max_tokens=3, ignore_eos=True), str(adapter))


def test_a_calibrator_is_left_out(adapter, tmp_path):
    file = uncalibrated(adapter, tmp_path)
    _, tensors = load_whole(file, "adapter")
    assert config_of(file) == config_of(adapter)
    assert not tensors["calibrator.out"].any()
    assert tensors["mask"].any()


def test_what_was_left_out_of_the_training_is_asked(folder, llm, tmp_path):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "q.npz", **{f"{name}-{n}": [n, 7] for name in ("mgsm", "gsm8k") for n in range(8)})
    assert asked(tmp_path / "q.npz", "mgsm", 9) == [("mgsm-0", [0, 7]), ("mgsm-4", [4, 7])]
    for name in ("books", "code"):
        np.save(tmp_path / f"{name}.npy", draw.integers(3, 90, 24 * 30 + 5))
    (tmp_path / "q.npz").unlink()
    held = read_corpus(tmp_path, llm.tokenizer, 24, 300).held
    both = [ids for name in ("books", "code") for _, ids in held_out(tmp_path, name, 24, 24, 9)]
    assert both == held.tolist()


def test_a_map_finds_what_blocks_were_made_of():
    """Tokens are right with the chance that their margin says; probabilities say nothing."""
    draw = np.random.default_rng(1)

    def made() -> Start:
        margins = draw.exponential(1.0, 8)
        right = int(np.argmin(np.append(draw.random(8) < margins / (margins + 0.5), False)))
        return Start(tuple(draw.uniform(0.6, 1, 8)), (), tuple(margins), right)

    fitted, texts = ([[made() for _ in range(60)] for _ in range(8)] for _ in range(2))
    found = Map.fitted(fitted)
    assert found.weights[1] > 0.5 > abs(found.weights[2])
    mapped = judged(texts, lambda texts: [found.chances(start) for text in texts for start in text])
    untaught, learned = judged(texts, said), judged(texts, taught)
    assert mapped.log_loss < learned.log_loss < untaught.log_loss
    assert mapped.error < 0.06 < untaught.error


def test_the_suites_run_through(model, adapter, folder):
    draw = np.random.default_rng(0)
    texts = folder / "texts"
    texts.mkdir()
    np.save(texts / "books.npy", draw.integers(3, 90, 24 * 17))
    np.savez(folder / "questions.npz", **{f"gsm8k-{place}": draw.integers(3, 90, 9) for place in range(5)})
    given = ["--quick", "-m", str(model), "--threads", "1", "--out", str(folder)]
    assert main(suite(Files(folder / "questions.npz", texts, adapter)), ROOT, given) == 0
    result = read_result(folder / "cpu-block_acceptance.json")
    assert [run["cell"] for run in result.runs] == [
        f"{name} {mode} 0" for name in ("gsm8k", "books") for mode in ("greedy", "T=0.7")
    ]
    assert all(run["texts"][0]["starts"] for run in result.runs)
    assert main(libra_block.SUITE, ROOT, given) == 0
    assert read_result(folder / "cpu-libra_block.json").quick
    assert (folder / "libra-block-reliability.svg").exists()
    missing = Files(folder / "questions.npz", folder, adapter)
    assert main(suite(missing), ROOT, given) == 1, "no texts there"


def test_a_calibrators_gain_is_that_of_two_adapters_alike_but_for_it(model, llm, adapter, folder):
    draw = np.random.default_rng(0)
    own = folder / "calibrator"
    own.mkdir()
    np.save(own / "books.npy", draw.integers(3, 90, 24 * 17))
    np.savez(own / "questions.npz", **{f"gsm8k-{place}": draw.integers(3, 90, 9) for place in range(5)})
    config = config_of(adapter)
    bare = replace(config, inner=0, recipe=dict(config.recipe))
    _, tensors = load_whole(adapter, "adapter")
    shapes = shapes_of(llm.spec, bare)
    write_adapter(
        own / "bare", bare, {name: tensors[name].view(-1)[: prod(of)].view(of) for name, of in shapes.items()}
    )
    files, given = Files(own / "questions.npz", own, adapter), ["--quick", "-m", str(model), "--threads", "1"]
    assert main(block_calibrator.suite(files, own / "bare"), ROOT, [*given, "--out", str(own)]) == 0
    result = read_result(own / "cpu-block_calibrator.json")
    leaning = uncalibrated(adapter, own)
    prompts = asked(own / "questions.npz", "gsm8k", 2)
    right = block_acceptance.measured(llm, prompts, "greedy", 12, adapter, 0)["texts"]
    for text, other in zip(result.runs[0]["texts"], right, strict=True):
        assert text["runs"][block_calibrator.WITH] == other["runs"][block_acceptance.BLOCK]
        assert text["runs"][block_calibrator.WITHOUT] == other["runs"][block_acceptance.LEANING]
    write_adapter(own / "other", replace(bare, rank=bare.rank + 1), {})
    for without, why in ((leaning, "not 0"), (own / "other", "more than the calibrator: rank 3 and 4")):
        with pytest.raises(ArgumentError, match=why):
            block_calibrator.check_pair(adapter, without)
