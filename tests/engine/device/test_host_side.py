"""What the host does for drafts stands in no first token's way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.drafting.racer.drafter import RacerDrafter
from glimpse.engine.device.asking import KNOWN, TRIES
from glimpse.engine.device.host_side import HostSide
from glimpse.engine.device.host_trees import HostTrees
from glimpse.engine.device.prompt_topk import ANYWAY, PromptTopK
from glimpse.engine.device.steps import Steps
from glimpse.engine.device.texts import SEEN
from glimpse.engine.device.tree_launch import TreeMove
from glimpse.engine.submit import make_requests
from glimpse.llm import LLM


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("host"), num_attention_heads=2, num_key_value_heads=1)
    return LLM(folder, device="cpu", drafter="none", pacer="fixed", max_batch_size=2)


@pytest.fixture(autouse=True)
def prompts_are_heard(monkeypatch):
    """As on a GPU; the interpreter takes seconds for the successors of 256 positions."""
    build = RacerDrafter.build

    def listening(cls, context):
        made = build(context)
        made.wants_prompt_topk = True
        return made

    monkeypatch.setattr(RacerDrafter, "build", classmethod(listening))
    monkeypatch.setattr("glimpse.engine.device.prompt_topk.PIECE", 8)


@pytest.fixture
def events(monkeypatch):
    """What happened, in order."""
    found: list[str] = []
    launch, note, draft = Steps.launch, PromptTopK.note, HostTrees.next
    monkeypatch.setattr(PromptTopK, "note", lambda *args: (found.append("note"), note(*args))[1])
    monkeypatch.setattr(HostTrees, "next", lambda *args, **how: (found.append("draft"), draft(*args, **how))[1])

    def launched(steps, move, view):
        found.append("trees" if isinstance(move, TreeMove) else "plain")
        return launch(steps, move, view)

    monkeypatch.setattr(Steps, "launch", launched)
    return found


def begin(llm, made, lengths, tokens=6):
    """Requests of an engine, which is stepped by hand, their callers in the list that is returned."""
    engine, heard = made._engine, []
    requests = [make_requests(llm.loaded, engine, prompt, greedy(tokens))[0] for prompt in prompts_of(llm, *lengths)]
    for number, request in enumerate(requests):
        request.hear = lambda progress, number=number: heard.append((number, list(progress.commit.token_ids)))
        engine.add(request)
    return engine, requests, heard


@pytest.mark.parametrize("pacer", ["fixed", "marginal"])
def test_a_first_token_waits_neither_for_successors_nor_for_drafts(llm, events, pacer):
    made = on_device(llm, drafter="racer", pacer=pacer, draft_tokens=4)
    engine, requests, heard = begin(llm, made, [9])
    while not heard:
        engine.step()
    assert events[:2] == ["plain", "note"]
    told = events.index("draft") if "draft" in events else len(events)
    assert told >= 2
    assert heard == [(0, ids_of(llm.generate(prompts_of(llm, 9), greedy(1)))[0])]
    while engine.busy:
        engine.step()
    assert "trees" in events
    assert [list(requests[0].committer.token_ids)] == ids_of(llm.generate(prompts_of(llm, 9), greedy(6)))


def test_callers_hear_of_a_first_token_before_the_drafts_behind_it(llm, events):
    """By the end of a step: that is when event loops are woken."""
    made = on_device(llm, drafter="racer", pacer="marginal", draft_tokens=4)
    engine, (request,), _ = begin(llm, made, [9])
    request.hear = lambda progress: events.append("heard")
    while engine.busy:
        engine.step()
        events.append("step")
    told = [event for event in events[: events.index("draft") + 1] if event != "step"]
    assert told == ["plain", "note", "heard", "draft"]
    assert "step" in events[events.index("heard") : events.index("draft")]


def test_a_step_behind_a_prompt_says_nothing_of_what_steps_take(llm, monkeypatch):
    """The prompt is in what is between its end and that of the step before: 92 ms where a step takes 6. Neither does
    one behind what is done for a prompt after its first token."""
    late, learn = [], HostSide.learn
    monkeypatch.setattr(HostSide, "learn", lambda host, own: (late.append(own.late), learn(host, own))[1])
    made = on_device(llm, drafter="racer", pacer="marginal", draft_tokens=4)
    engine, _, _ = begin(llm, made, [9])
    while len(late) < 4:
        engine.step()
    engine.add(make_requests(llm.loaded, engine, *prompts_of(llm, 9), greedy(6))[0])
    while engine.busy:
        engine.step()
    assert late[:4] == [True, True, False, False]
    assert late[4:].count(True) == 2


def test_a_prompt_is_heard_of_now_and_then_where_it_does_not_look_worth_it(llm, monkeypatch):
    made = on_device(llm, drafter="racer", pacer="marginal", draft_tokens=4)
    host = made._engine._host
    monkeypatch.setattr(host.asking, "speed", lambda rows, doubts: 0.5)
    (request,) = make_requests(llm.loaded, made._engine, *prompts_of(llm, 9), greedy(6))
    new = SimpleNamespace(request=request)
    assert [host.hears([], new) for _ in range(ANYWAY + 1)] == [False] * ANYWAY + [True]
    assert [host.hears([], new) for _ in range(2 * ANYWAY + 1)] == [False] * 2 * ANYWAY + [True]


@pytest.mark.parametrize("followed", [True, False])
def test_rows_whose_callers_follow_them_count_each_for_itself(llm, followed):
    """The batch of a job is one; those of a server are many. Drafts that bring one of four rows 16 tokens a step, in
    three times a plain step's time, are worth that to a job and not to a server."""
    made = on_device(llm, drafter="racer", pacer="marginal", draft_tokens=4)
    engine, (request,), _ = begin(llm, made, [9])
    request.hear = request.hear if followed else None
    engine.step()
    asking, rows = engine._host.asking, (1, 2, 3, 4)
    size = asking._size(len(rows))
    for _ in range(max(KNOWN, TRIES)):
        size.plain.add(len(rows), 1.0)
        size.asked.add(len(rows), 3.0)
    for number, tokens in zip(rows, [16, 1, 1, 1], strict=True):
        for _ in range(SEEN):
            asking._texts.learn(number, tokens)
    assert asking.speed(rows) == pytest.approx(2 / 3 if followed else 19 / 12)


def test_a_text_is_read_while_its_first_token_is_written(llm, monkeypatch):
    """Not by the step that drafts."""
    read, launched = [], HostSide.launched

    def looked(host, seats, begun, waited):
        launched(host, seats, begun, waited)
        read.append([host._late.readers[seat.slot].position for seat in seats])

    monkeypatch.setattr(HostSide, "launched", looked)
    made = on_device(llm, drafter="racer", pacer="marginal", draft_tokens=4)
    engine, _, heard = begin(llm, made, [9, 13])
    while not heard:
        engine.step()
    assert read[0] == [9, 13]


def parts_of(monkeypatch, held):
    for module in ("prefill", "reading"):
        monkeypatch.setattr(f"glimpse.engine.device.{module}.CHUNK", 4)
    monkeypatch.setattr("glimpse.engine.device.reading.HELD", held)


@pytest.mark.parametrize(("held", "order"), [(1 << 20, ["plain", "note", "note", "note"]),
                                             (0, ["note", "note", "plain", "note"])])  # fmt: skip
def test_a_long_prompt_has_its_token_first_as_far_as_there_is_room(llm, events, monkeypatch, held, order):
    parts_of(monkeypatch, held)
    made = on_device(llm, drafter="racer", pacer="marginal", draft_tokens=4)
    made._engine._reader._tails = None  # which reads short prompts at once
    engine, requests, heard = begin(llm, made, [12])
    while not heard:
        engine.step()
    assert events[:4] == order
    while engine.busy:
        engine.step()
    assert [list(requests[0].committer.token_ids)] == ids_of(llm.generate(prompts_of(llm, 12), greedy(6)))


def test_nothing_is_found_for_who_has_left(llm, events, monkeypatch):
    parts_of(monkeypatch, 1 << 20)
    made = on_device(llm, drafter="racer", pacer="marginal", draft_tokens=4)
    made._engine._reader._tails = None
    engine, (request,), _ = begin(llm, made, [12])
    engine.step()
    assert engine._reader._unheard
    engine.cancel(request)
    assert not engine._reader._unheard
    engine.step()
    assert events == []
    assert engine.parts.pool.free_pages == llm.loaded.pool.free_pages


def test_while_a_batch_rests_its_texts_are_followed(llm, monkeypatch):
    monkeypatch.setattr("glimpse.engine.device.repeats.EVERY", 4)
    made = on_device(llm, drafter="racer", pacer="marginal", draft_tokens=4)
    engine, (request,), _ = begin(llm, made, [9], tokens=24)
    engine.step()
    host, slot = engine._host, 0
    host.asking._rest = 10**6
    came = []
    while not request.finished:
        engine.step()
        came.append((int(host.repeats._known[slot][0]), int(engine.parts.rows.committed_len[slot])))
    followed = [place for place, _ in came if place]
    assert max(followed) > 9, "beyond the prompt"
    assert all(place <= length for place, length in came if length)
    assert host.repeats._new[slot], "whoever comes next is another"
