"""Trees on the device write what the eager engine writes plainly, whoever drafts, joins, leaves or runs beside."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch
from tests.cuts import cut_to_likeliest
from tests.doubles import RandomPacer
from tests.trees import Spine, Trees

from engine.device.engines import greedy, ids_of, on_device, prompts_of, tiny_folder
from glimpse.cache.rows import Rows
from glimpse.engine.build import make_parts
from glimpse.engine.device.build import device_engine
from glimpse.engine.options import EngineOptions
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.pacing.pacer import Action, Decisions
from glimpse.sampling.params import SamplingParams

pytestmark = pytest.mark.usefixtures("no_page_lost")
ENGINES = {
    "racer": {"drafter": "racer", "pacer": "fixed", "draft_tokens": 5},
    "suffix": {"drafter": "suffix", "pacer": "fixed", "draft_tokens": 4},
    "racer+suffix": {"drafter": "racer+suffix", "pacer": "marginal", "draft_tokens": 6},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("trees"), num_attention_heads=2, num_key_value_heads=1)


@pytest.fixture(scope="module")
def llm(folder):
    return LLM(folder, drafter="none", pacer="fixed", max_batch_size=2, device="cpu")


@pytest.fixture(autouse=True)
def few_processors(monkeypatch):
    """So that the interpreter has few programs to run."""
    for module in ("attention", "recalled"):
        monkeypatch.setattr(f"glimpse.attention.triton.{module}.processors", lambda device: 4)


def with_trees(llm, drafting, pacing=None, **options):
    """On the device, with a drafter object and rows for its trees."""
    other = llm.variant(**{"drafter": "suffix", "pacer": "fixed", "draft_tokens": 8} | options)
    parts = make_parts(llm.loaded, other.options)
    most = max(parts.rows.max_draft, drafting.budget)
    rows = Rows(parts.rows.capacity, parts.rows.width + most, most)
    parts = replace(parts, rows=rows, drafter=drafting, pacer=pacing or parts.pacer)
    other._engine = device_engine(parts, other.options)
    return other


def texts(llm, prompts, params):
    """What plain decoding writes: (prompt, output) of each, as doubles want them."""
    return [(prompt, ids) for prompt, ids in zip(prompts, ids_of(llm.generate(prompts, params)), strict=True)]


def sampled(*tokens):
    return [
        SamplingParams(max_tokens=most, temperature=0.8, top_k=40, seed=seed, ignore_eos=True)
        for seed, most in enumerate(tokens)
    ]


def said(outputs):
    return [(out.token_ids, out.text, out.finish_reason, out.stop_reason) for out in outputs]


@pytest.mark.parametrize("name", ENGINES)
def test_the_text_is_plain_decodings(llm, name, monkeypatch):
    """Three requests over two rows, greedy and sampled: the first to end leaves its row to the last.

    Of `marginal`, the four likeliest nodes pay, whatever they take here.
    """
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)
    monkeypatch.setattr("glimpse.pacing.marginal.cut", cut_to_likeliest(4))
    first, other, third = prompts_of(llm, 4, 2, 5)
    written = ids_of(llm.generate([first], greedy(4)))[0]
    prompts, params = [first + written + first, other, third], [greedy(4), *sampled(2, 2)]
    outputs = on_device(llm, **ENGINES[name]).generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    assert outputs[0].speculation.drafted > 0
    assert all(set(output.speculation.eager_steps) == {"no CUDA device"} for output in outputs)


def test_what_the_device_waits_for_the_host_is_told_apart_from_what_steps_take(llm, monkeypatch):
    """A drafter that takes 30 ms: steps cost that besides their load."""
    monkeypatch.setattr("glimpse.pacing.marginal.PLAIN_FIRST", 0)
    [prompt] = prompts_of(llm, 6)
    slow, plain = on_device(llm, drafter="racer", pacer="marginal"), on_device(llm, drafter="none")
    parts = slow._engine.parts
    plan = parts.drafter.plan
    monkeypatch.setattr(parts.drafter, "plan", lambda rows, room: time.sleep(0.03) or plan(rows, room))
    slow.generate([prompt], [greedy(5)])
    assert 0.03 <= parts.costs.waits < 0.3
    plain.generate([prompt], [greedy(5)])
    assert plain._engine.parts.costs.waits == 0


def test_random_trees_cut_at_random(llm):
    """Right and wrong branches of rows that join, move and leave; drafters are told the path."""
    prompts, params = prompts_of(llm, 7, 3, 5), [greedy(6), *sampled(3, 5)]
    written = texts(llm, prompts, params)
    drafter, pacer = Trees(written, nodes=6, right=0.8, seed=3), RandomPacer(8)
    outputs = with_trees(llm, drafter, pacer).generate(prompts, params)
    assert ids_of(outputs) == [ids for _, ids in written]
    accepted = [outcome for outcome in drafter.outcomes if outcome.path]
    assert any(outcome.path != list(range(outcome.accepted)) for outcome in accepted)
    assert all(len(outcome.path) == outcome.accepted == len(outcome.tokens) - 1 for outcome in accepted)
    assert sum(output.speculation.accepted for output in outputs) == sum(out.accepted for out in drafter.outcomes)
    assert not drafter.admitted
    assert not pacer.admitted


def test_every_accepted_node_moves(llm):
    """Two nodes a token, the right one last: a round commits as deep as the tree is, and the next one reads it."""
    prompts, params = prompts_of(llm, 3), [greedy(7)]
    written = texts(llm, prompts, params)
    found = with_trees(llm, Spine(written, width=1), draft_tokens=3).generate(prompts, params)
    assert ids_of(found) == [ids for _, ids in written]
    assert found[0].speculation.accepted == 5
    assert found[0].speculation.draft_lengths == {6: 1, 4: 1}


class Whole(RandomPacer):
    """Always drafts, and verifies all of it."""

    def decide(self, rows, room):
        return Decisions([Action.DRAFT] * len(room), [min(self.most, left) for left in room])

    def trim(self, rows):
        return rows.column(rows.rows.draft_len)


def test_a_tree_of_more_nodes_than_a_mask_has_bits_is_cut(llm):
    """32 nodes a token, the right one last: of the second 32 the last is gone."""
    prompts, params = prompts_of(llm, 3), greedy(3)
    written = texts(llm, prompts, params)
    found = with_trees(llm, Spine(written, width=31), Whole(64)).generate(prompts, params)
    assert ids_of(found) == [ids for _, ids in written]
    assert found[0].speculation.draft_lengths == {63: 1}
    assert found[0].speculation.accepted == 1


def test_nodes_beyond_the_promised_pages_borrow_theirs(llm):
    """15 tokens have a page; the nodes reach into the next, which is given back once they have been judged."""
    (prompt,) = prompts_of(llm, 12)
    written = texts(llm, [prompt], [greedy(3)])
    device = with_trees(llm, Spine(written, width=2), draft_tokens=6)
    engine, (request,) = device._engine, device._requests([prompt], greedy(3))
    free, most = engine.parts.pool.free_pages, 0
    engine.add(request)
    while not request.finished:
        engine.step()
        held = [len(sequence.pages) for sequence in engine.parts.rows.sequences if sequence]
        assert held in ([], [1], [2] if engine._flying else [1])
        most = max(most, *held, 0)
    assert most == 2
    assert engine.parts.pool.free_pages == free
    assert list(request.committer.token_ids) == written[0][1]
    assert request.speculation.draft_lengths == {6: 1}  # positions up to 17


def test_a_row_that_was_put_back_goes_on(llm):
    """Its trees and what it wrote lie in pages of their own, whoever had them meanwhile."""
    prompts, params = prompts_of(llm, 3, 2), [greedy(4), greedy(2)]
    written = texts(llm, prompts, params)
    device = with_trees(llm, Spine(written, width=1), draft_tokens=2, reserve="next")
    engine, made = device._engine, device._requests(prompts, params)
    for request in made:
        engine.add(request)
    engine.step()
    assert engine.preempt(made[0])
    while engine.busy:
        engine.step()
    assert [list(request.committer.token_ids) for request in made] == [ids for _, ids in written]
    assert made[0].preempted == 1


def test_stops_and_cancellations_within_a_tree(llm):
    prompts = prompts_of(llm, 4, 3)
    written = texts(llm, prompts, greedy(9))
    stop = greedy(9, stop_token_ids=[written[0][1][2]])
    device = with_trees(llm, Spine(written, width=1), draft_tokens=4)
    assert said(device.generate(prompts[:1], stop)) == said(llm.generate(prompts[:1], stop))
    engine, (request,) = device._engine, device._requests(prompts[1:], greedy(9))
    engine.add(request)
    engine.step()
    engine.cancel(request)
    assert not engine.busy
    assert engine.step() == []


def test_the_end_of_the_context(folder):
    """Prompts that fill the context but for a few tokens: nodes stand beyond it, tokens do not."""
    short = LLM(folder, drafter="none", pacer="fixed", max_batch_size=2, device="cpu", max_context=8)
    prompts = prompts_of(short, 6, 7, 8)
    written = texts(short, prompts, greedy(5))
    found = with_trees(short, Spine(written, width=5), draft_tokens=8).generate(prompts, greedy(5))
    assert said(found) == said(short.generate(prompts, greedy(5)))
    assert sum(out.speculation.drafted for out in found) > 0


def test_processors_run_eagerly_beside_with_trees_of_their_own(llm):
    prompts, params = prompts_of(llm, 4, 3), [greedy(3, repetition_penalty=1.3), greedy(3)]
    written = texts(llm, prompts, params)
    found = with_trees(llm, Spine(written), draft_tokens=2).generate(prompts, params)
    assert ids_of(found) == [ids for _, ids in written]
    assert set(found[0].speculation.eager_steps) == {"repetition_penalty asked for"}
    assert set(found[1].speculation.eager_steps) == {"no CUDA device"}
    assert all(out.speculation.accepted for out in found)


def test_a_draft_that_breaks_its_row_is_dropped(llm):
    """A drafted token's values are not finite: a plain step shows that the text is sound."""
    (prompt,) = prompts_of(llm, 4)
    written = texts(llm, [prompt], [greedy(3)])
    spoiled = next(token for token in range(3, 300) if token not in prompt + written[0][1])
    weight = llm.loaded.checkpoint.decoder.embedding.weight
    kept = weight[spoiled].clone()

    class Spoiled(Spine):
        def _tree(self, right):
            return [(spoiled, -1), (right[0], -1)] if right else []

    with torch.inference_mode():
        weight[spoiled] = torch.nan
        found = with_trees(llm, Spoiled(written), draft_tokens=2).generate([prompt], greedy(3))
        weight[spoiled] = kept
    assert ids_of(found) == [ids for _, ids in written]


def test_trees_are_refused_where_bits_count(llm):
    """A node's siblings stand between it and its ancestors, so that sums are taken in another order."""
    options = EngineOptions(**ENGINES["racer"], exact="bitwise")
    with pytest.raises(ArgumentError, match="'bitwise' takes chains, and drafter 'racer' gives trees"):
        device_engine(make_parts(llm.loaded, options), options)
