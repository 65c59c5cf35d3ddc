"""Shadows beside a device that rests: the text of plain decoding, and nothing left behind."""

from __future__ import annotations

import pytest

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from engine.device.test_device_auto import as_on_a_gpu  # noqa: F401
from glimpse.engine.device.asking import BEGIN, KNOWN
from glimpse.engine.device.shadows import Shadows
from glimpse.engine.device.watched import WatchedAsking
from glimpse.engine.submit import make_requests
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("shadows"), num_attention_heads=2, num_key_value_heads=1)
    return LLM(folder, device="cpu", drafter="none", pacer="fixed", max_batch_size=2)


@pytest.fixture(autouse=True)
def there_is_time_for_units(monkeypatch):
    """Here the device works before the host can wait for it."""
    monkeypatch.setattr("glimpse.engine.device.shadows.ROOM", 0.0)
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)


@pytest.fixture(autouse=True)
def prompts_in_small_pieces(monkeypatch):
    """The interpreter takes seconds for the successors of 256 positions."""
    monkeypatch.setattr("glimpse.engine.device.prompt_topk.PIECE", 8)


@pytest.fixture
def told(monkeypatch):
    """What shadows told, of a batch that rests nearly always."""
    found, foretold = [], WatchedAsking.foretold

    def note(asking, *facts):
        found.append(facts)
        foretold(asking, *facts)

    monkeypatch.setattr(WatchedAsking, "foretold", note)
    monkeypatch.setattr(WatchedAsking, "_pays", lambda asking, doubts: False)
    monkeypatch.setattr(WatchedAsking, "_pause", lambda asking, size, loss: 50)
    return found


def texts(llm) -> tuple[list[list[int]], list[SamplingParams]]:
    """Three requests over two rows, two of which repeat what they wrote."""
    first, *others = prompts_of(llm, 6, 4, 9)
    written = ids_of(llm.generate([first], greedy(5)))[0]
    sampled = SamplingParams(max_tokens=18, temperature=0.8, seed=3, ignore_eos=True)
    return [first + written + first, *others], [greedy(26), sampled, greedy(20)]


@pytest.mark.parametrize("options", [{"drafter": "auto"}, {"drafter": "racer+suffix", "pacer": "marginal"}])
def test_the_text_is_plain_decodings_while_shadows_watch(llm, told, options):
    prompts, params = texts(llm)
    made = on_device(llm, **({"pacer": None} | options))
    outputs = made.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    assert len({number for number, _, _ in told}) == 3
    assert all(1 <= tokens <= passed for _, tokens, passed in told)
    assert not made._engine._host.shadows._rounds
    assert not made._engine.parts.drafter._sources


def test_a_batch_wakes_for_drafts_that_shadows_foretell(llm, monkeypatch):
    """It rests until told that drafts pay, and then asks."""
    asked = []
    monkeypatch.setattr(WatchedAsking, "_pays", lambda asking, doubts: told_of[0] > 0)
    monkeypatch.setattr(WatchedAsking, "_pause", lambda asking, size, loss: 10_000)
    told_of, foretold, asks = [0], WatchedAsking.foretold, WatchedAsking.asks

    def note(asking, *facts):
        told_of[0] += 1
        foretold(asking, *facts)

    def noted(asking, rows):
        asked.append((asks(asking, rows), told_of[0]))
        return asked[-1][0]

    monkeypatch.setattr(WatchedAsking, "foretold", note)
    monkeypatch.setattr(WatchedAsking, "asks", noted)
    prompts, params = texts(llm)
    outputs = on_device(llm, drafter="auto", pacer=None).generate(prompts[:1], params[:1])
    assert ids_of(outputs) == ids_of(llm.generate(prompts[:1], params[:1]))
    rested = [ask for ask, told in asked if not told]
    assert sum(rested) <= BEGIN
    assert len(rested) >= BEGIN + KNOWN
    assert all([ask for ask, told in asked if told][KNOWN:]), "but for those that say what a plain step takes"
    assert told_of[0] <= 1 + KNOWN, "no shadows beside steps that ask"


@pytest.mark.parametrize("way", ["preempt", "cancel"])
def test_who_is_put_back_or_cancelled_leaves_no_round(llm, told, way):
    prompts, params = texts(llm)
    made = on_device(llm, drafter="auto", pacer=None)
    right, engine = ids_of(llm.generate(prompts, params)), made._engine
    requests = [make_requests(llm.loaded, engine, *pair)[0] for pair in zip(prompts, params, strict=True)]
    for request in requests:
        engine.add(request)
    gone = requests[0]
    for step in range(300):
        if not engine.busy:
            break
        engine.step()
        if step in (15, 16, 25):
            getattr(engine, way)(gone)
            running = {seat.slot for seat in engine._seats.taken}
            assert set(engine._host.shadows._rounds) <= running
    kept = requests[1:] if way == "cancel" else requests
    assert [list(request.committer.token_ids) for request in kept] == right[-len(kept) :]
    assert not engine._host.shadows._rounds
    assert not engine.parts.drafter._sources


def test_no_shadows_beside_other_ways(llm):
    for options in ({"drafter": "lookup", "pacer": None}, {"drafter": "racer", "pacer": "fixed", "draft_tokens": 4}):
        assert on_device(llm, **options)._engine._host.shadows is None
    assert isinstance(on_device(llm, drafter="suffix", pacer="marginal")._engine._host.shadows, Shadows)


def test_a_batch_that_drafts_for_itself_has_no_shadows(llm, told, monkeypatch):
    monkeypatch.setattr("glimpse.pacing.fleet.FleetPacer.gain", lambda pacer, rows: 9.0)
    made = on_device(llm, drafter="auto", pacer=None, budget_floor=8)
    prompts, params = texts(llm)
    outputs = made.generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    assert all(choice.drafter == "sparse" for out in outputs for choice in out.speculation.choices)
    assert not told
