"""Block drafts through the whole engine: the text of plain decoding whatever the head says, and what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.adapters import write_random_adapter
from tests.doubles import RandomPacer
from tests.drafting.block.toy_head import KnowingHead, ToyDrafter, ToyHead
from tests.engine.test_equality import jobs, run

from glimpse.attention.plan import MaskGroups, RowSpec
from glimpse.cache.rows import Rows, RowView
from glimpse.cache.sequence import Sequence
from glimpse.engine.engine import Engine
from glimpse.engine.forward import forward, load_of
from glimpse.engine.riding import BlockDraws
from glimpse.pacing.costs import StepCosts
from glimpse.sampling import SamplingParams
from glimpse.sampling.law import pick
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.noise import Role


@pytest.fixture(scope="module")
def plain(tiny):
    return [tiny.generate(ids, params)[0].token_ids for ids, params in jobs()]


@pytest.fixture(scope="module")
def adapter(tiny, tmp_path_factory):
    return write_random_adapter(tmp_path_factory.mktemp("adapter") / "random.safetensors", tiny)


def flex(tiny, adapter, **options):
    return tiny.variant(drafter="block", adapter=str(adapter), **{"pacer": "fixed", "draft_tokens": 4} | options)


def with_head(tiny, head, pacer=None, **options):
    """The tiny model with a head of another kind."""
    other = tiny.variant(drafter="lookup", **{"pacer": "fixed", "draft_tokens": 5} | options)
    parts = other._engine.parts
    drafter = ToyDrafter(head, BlockDraws(parts.sampler, parts.acceptance))
    new = {"drafter": drafter} | ({"pacer": pacer} if pacer else {})
    other._engine = Engine(replace(parts, **new), other.options)
    return other


@pytest.mark.parametrize("mode", ["auto", "parallel", "sequential"])
@pytest.mark.parametrize("rule", ["coupled", "matched"])
def test_blocks_of_masks_leave_the_text_as_it_is(tiny, plain, adapter, mode, rule):
    tokens, counts = run(flex(tiny, adapter, block_mode=mode, acceptance=rule))
    assert tokens == plain
    assert counts["drafted"] > 100


def test_a_block_is_drawn_with_the_noise_and_the_options_of_its_places(tiny):
    """Under `coupled`, from the target's own logits: what plain decoding would pick there, no end too early."""
    parts, size = tiny._engine.parts, 5
    draws, view = BlockDraws(parts.sampler, parts.acceptance), RowView(parts.rows, (0,))
    params = SamplingParams(max_tokens=9, temperature=1.0, seed=4, min_tokens=3, stop_token_ids=[7], logit_bias={7: 30})
    (request,) = tiny._requests([list(range(40, 50))], params)
    engine = tiny._engine
    engine.add(request)
    engine.step()
    logits = torch.randn(1, size, parts.sampler.vocab_size, generator=torch.Generator().manual_seed(1))
    tokens, _ = draws(view, logits)
    written, length = len(request.committer.token_ids), int(parts.rows.committed_len[0])
    nodes = Nodes.plain([0] * size, [length + place for place in range(size)], [written + p for p in range(size)])
    right = pick(parts.sampler.laws(logits[0], nodes), parts.sampler.seeds_of(nodes), nodes.position, Role.TARGET)
    assert tokens.tolist() == [right.tolist()]
    assert [token == 7 for token in tokens[0].tolist()] == [False, False, True, True, True]
    engine.cancel(request)


def test_a_block_that_does_not_go_on_from_the_text_is_not_offered(tiny):
    rows, drafter = Rows(1, 40, 8), ToyDrafter(ToyHead(tiny._engine.parts.decoder), None)
    view = RowView(rows, (0,))
    rows.committed_len[0] = 10
    drafter.keep(view, torch.tensor([[5, 6, 7]]), torch.ones(1, 3))
    assert drafter.ready(view) == [True]
    assert drafter.plan(view, [8]).tokens.tolist() == [5, 6, 7]
    rows.committed_len[0] = 11
    assert drafter.ready(view) == [False]
    assert drafter.plan(view, [8]).tokens.tolist() == []


@pytest.mark.parametrize("pacer", ["marginal", "feedback", "entropy"])
def test_whoever_paces(tiny, plain, adapter, pacer):
    assert run(flex(tiny, adapter, pacer=pacer, draft_tokens=None))[0] == plain


def test_without_a_calibrator_and_through_all_layers(tiny, plain, tmp_path):
    adapter = write_random_adapter(tmp_path / "a", tiny, inner=0, first=0, size=2)
    tokens, counts = run(flex(tiny, adapter))
    assert tokens == plain
    assert counts["drafted"] > 100


def test_plain_steps_between_blocks(tiny, plain, adapter):
    """Rows draft, verify and decode plainly at random, and blocks are cut anywhere: stale ones are never offered."""
    llm = flex(tiny, adapter)
    llm._engine = Engine(replace(llm._engine.parts, pacer=RandomPacer(4, seed=1)), llm.options)
    assert run(llm)[0] == plain


def test_rejection_is_greedy_where_the_request_is(tiny, plain, adapter):
    tokens, _ = run(flex(tiny, adapter, acceptance="rejection"))
    greedy = [index for index, (_, params) in enumerate(jobs()) if params.temperature == 0]
    assert [tokens[i] for i in greedy] == [plain[i] for i in greedy]


def test_a_head_of_another_kind(tiny, plain):
    """The contract: hidden states in, logits out; nothing rides."""
    head = ToyHead(tiny.loaded.checkpoint.decoder)
    tokens, counts = run(with_head(tiny, head))
    assert tokens == plain
    assert counts["drafted"] > 100
    assert not head._contexts


def test_what_a_head_knows_is_accepted(tiny):
    ids = list(range(40, 60))
    right = tiny.generate(ids, SamplingParams(max_tokens=40, temperature=0.0))[0].token_ids
    head = KnowingHead(tiny.loaded.checkpoint.decoder, {tuple(ids): right}, right=4)
    out = with_head(tiny, head).generate(ids, SamplingParams(max_tokens=40, temperature=0.0))[0]
    assert out.token_ids == right
    assert out.speculation.accepted >= 0.75 * len(right)
    # It hears of every token once: the prompt's, and of the text all but what followed the last block.
    assert len(ids) + 0.75 * len(right) < head.heard[0] < len(ids) + len(right)


@pytest.mark.parametrize("riding", [(), (2,), (0, 1, 2)])
def test_the_text_never_sees_the_masks(tiny, adapter, riding):
    """Logits and cache are bit for bit those of a forward without mask tokens."""
    llm = flex(tiny, adapter)
    parts, ids = llm._engine.parts, list(range(40, 53))
    kept = []
    for behind in ((), riding):
        rows, sequence = Rows(1, 40, 4), Sequence(parts.pool, expected=20)
        rows.open(0, ids, sequence, 20)
        sequence.reserve(len(ids))
        masks = MaskGroups(parts.drafter.head.path, 4, behind) if behind else None
        spec = RowSpec(0, sequence, 0, len(ids), outputs=3, masks=masks)
        with torch.inference_mode():
            result = forward(parts.decoder, parts.pool, rows, [spec])
        slots = sequence.slots(0, len(ids))
        kept.append((result.logits[0], parts.pool.keys[:, :, slots].clone(), parts.pool.values[:, :, slots].clone()))
        groups = result.groups[0]
        assert groups is None if masks is None else groups.shape == (len(behind), 4, 48)
        sequence.release()
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(*kept, strict=True))


def groups(parts, text, behind):
    """Hidden states of groups behind some tokens of a text, from one forward of their own."""
    rows, sequence = Rows(1, 200, 4), Sequence(parts.pool, expected=len(text))
    rows.open(0, text, sequence, 200)
    sequence.reserve(len(text))
    spec = RowSpec(0, sequence, 0, len(text), masks=MaskGroups(parts.drafter.head.path, 4, behind))
    with torch.inference_mode():
        found = forward(parts.decoder, parts.pool, rows, [spec]).groups[0]
    sequence.release()
    return found


def test_a_group_is_what_it_would_be_alone(tiny, adapter):
    """Each group sees the text up to its branch point and itself: others, and later text, change nothing."""
    parts, ids = flex(tiny, adapter)._engine.parts, list(range(40, 53))
    for behind in ((3, 7, 12), tuple(range(13))):  # few queries, and many, which take another way
        together = groups(parts, ids, behind)
        for place in (0, len(behind) // 2, len(behind) - 1):
            end = behind[place]
            alone = groups(parts, ids[: end + 1], (end,))[0]
            torch.testing.assert_close(together[place], alone, rtol=1e-3, atol=1e-4)
        assert not torch.allclose(together[0], together[1], atol=1e-2)


def test_the_next_block_is_that_of_the_group_that_came_true(tiny, adapter, monkeypatch):
    """Whatever was accepted, the head is told of the masks behind the last token kept, and of no others."""
    llm, told = flex(tiny, adapter, block_mode="parallel"), []
    parts = llm._engine.parts
    propose = parts.drafter.head.propose

    def recording(seen):
        told.extend((parts.rows.tokens[one.slot, : parts.rows.committed_len[one.slot]].tolist(), one) for one in seen)
        return propose(seen)

    monkeypatch.setattr(parts.drafter.head, "propose", recording)
    few = [token for token in range(300) if token not in range(40, 45)]
    params = SamplingParams(max_tokens=60, temperature=1.0, seed=4, suppress_tokens=few)
    out = llm.generate([40, 41, 44, 42], params)[0]
    assert out.speculation.accepted > 10
    assert out.speculation.accepted < out.speculation.drafted
    for text, one in told:
        assert text[-1] == one.bonus
        assert text[-1 - len(one.tokens) : -1] == one.tokens.tolist()
        assert len(one.tokens) == len(one.hidden)
        alone = groups(parts, text[:-1], (len(text) - 2,))[0]
        torch.testing.assert_close(one.masks, alone, rtol=1e-3, atol=1e-4)


def test_a_load_counts_the_masks(tiny, adapter):
    llm = flex(tiny, adapter)
    parts, sequence = llm._engine.parts, Sequence(llm._engine.parts.pool)
    masks = MaskGroups(parts.drafter.head.path, 4, (0, 1))
    load = load_of([RowSpec(0, sequence, 10, 2, masks=masks)], parts.rows)
    assert (load.full_tokens, load.draft_tokens, load.draft_kv, load.rounds, load.riding) == (2, 8, 24, 0, 1)


def test_what_the_first_mask_costs_is_measured_apart_from_the_others(tiny, adapter):
    """The layers that masks go through read their weights again, for one group as for five."""
    parts, sequence = flex(tiny, adapter)._engine.parts, Sequence(flex(tiny, adapter)._engine.parts.pool)
    costs, path = StepCosts(10**6, 10), parts.drafter.head.path
    for count in (0, 1, 2, 5) * 9:
        masks = MaskGroups(path, 4, tuple(range(count))) if count else None
        load = load_of([RowSpec(0, sequence, 100, 5, masks=masks)], parts.rows)
        costs.observe(load, 1.0 + (0.4 if count else 0.0) + 0.01 * 4 * count)
    assert float(costs.marginal(riding=1)) == pytest.approx(0.4, rel=0.2)
    assert float(costs.marginal(draft_tokens=4, draft_kv=100)) == pytest.approx(0.04, rel=0.5)


def test_settings_have_an_adapter_where_it_is_read(tiny, adapter):
    llm = flex(tiny, adapter)
    assert (llm.settings["adapter"], llm.settings["block_mode"]) == (str(adapter), "auto")
    other = llm.variant(drafter="lookup")
    assert (other.settings["adapter"], other.settings["block_mode"]) == (None, None)


def test_everything_is_given_back(tiny, adapter):
    llm = flex(tiny, adapter)
    run(llm)
    assert not llm._engine.parts.drafter._blocks
    assert llm.loaded.pool.free_pages == llm.loaded.pool.pages


def test_what_pays_is_found_out(tiny, adapter):
    """The pacer that prices nodes knows of plain steps, though masks ride on every other row without a draft."""
    llm = flex(tiny, adapter, pacer="marginal", draft_tokens=None)
    costs = llm._engine.parts.costs
    llm.generate(list(range(40, 60)), SamplingParams(max_tokens=80, temperature=0.0))
    points = [load for load, _ in costs.points()]
    assert any(load[1] == 1 and load[2] == 0 for load in points)
    assert any(load[1] == 1 and load[2] == 4 for load in points)
    assert not llm._engine.parts.pacer.plain_is_unknown
