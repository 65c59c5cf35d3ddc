"""Drafted tokens given back after they were seen: exact under `coupled` and `matched`, never under `rejection`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from scipy.stats import binomtest
from tests.doubles import HostDrafter, Noisy, RandomPacer, with_parts
from tests.engine.test_engine_laws import ALLOWED, PARAMS, PROMPT, Switching, check
from tests.engine.test_engine_laws import law as law
from tests.engine.test_engine_laws import llm as llm
from tests.engine.test_equality import jobs, texts_of
from tests.engine.test_equality import plain as plain

from glimpse.acceptance import REGISTRY
from glimpse.cache.rows import RowView
from glimpse.drafting import DRAFTERS
from glimpse.drafting.chains import chain
from glimpse.errors import ArgumentError
from glimpse.pacing import PACERS
from glimpse.pacing.pacer import Action, chain_pacer_of
from glimpse.sampling import SamplingParams

EXACT = ("coupled", "matched")
NAMES = ("marginal", "libraspec")


def likes(token: int) -> bool:
    """Some tokens are liked, for what they are."""
    return token % 2 == 0


class Choosy(RandomPacer):
    """Drafts all it can; gives back the first drafted token that it does not like, and all behind it."""

    rolls_back = True
    candidates = 2

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.heard = self.dropped = 0

    def hear(self, slot, tokens, scores) -> None:
        assert len(tokens) == len(scores) == 2
        self.heard += 1

    def trim(self, rows: RowView) -> list[int]:
        kept = [self._leading(rows, *row) for row in zip(rows.slots, rows.column(rows.rows.draft_len), strict=True)]
        self.dropped += sum(rows.column(rows.rows.draft_len)) - sum(kept)
        return kept

    def _action(self, left: int) -> Action:
        return Action.DRAFT if left > 0 else Action.VERIFY

    def _leading(self, rows: RowView, slot: int, drafted: int) -> int:
        begin = int(rows.rows.committed_len[slot])
        tokens: list[int] = rows.rows.tokens[slot, begin : begin + drafted].tolist()
        return next((place for place, token in enumerate(tokens) if not likes(token)), drafted)


class Block(Noisy):
    """A toy block drafter: blocks of 4 tokens at once, each with the confidence it should have."""

    SIZE = 4

    def plan(self, rows: RowView, room: list[int]):
        blocks = [self.proposal(rows, slot, min(self.SIZE, most)) for slot, most in zip(rows.slots, room, strict=True)]
        said = [self._said(rows, slot, block) for slot, block in zip(rows.slots, blocks, strict=True)]
        return chain(blocks, said)

    def _said(self, rows: RowView, slot: int, block: Sequence[int]) -> list[float]:
        begin = len(rows.history(slot)) - self.admitted[slot]
        text = self._follows[slot][begin : begin + len(block)]
        return [0.95 if mine == right else 0.1 for mine, right in zip(block, text, strict=True)]


@pytest.mark.parametrize("rule", EXACT)
def test_the_text_does_not_depend_on_what_is_given_back(tiny, plain, rule):
    """Greedy, sampled, with every processor: `jobs` has them all."""
    pacer = Choosy(6)
    other = with_parts(tiny, pacing=pacer, drafter="sparse", acceptance=rule, draft_tokens=6)
    prompts, params = zip(*jobs(), strict=True)
    outputs = other.generate(prompts, params)
    assert [out.token_ids for out in outputs] == plain
    steps = sum(out.speculation.draft_steps for out in outputs)
    assert 0 < sum(out.speculation.drafted for out in outputs) <= steps - pacer.dropped
    assert pacer.heard == steps
    assert pacer.dropped > 0


def test_who_does_not_roll_back_is_not_asked_to(tiny, monkeypatch):
    monkeypatch.setattr(Choosy, "rolls_back", False)
    pacer = Choosy(4)
    other = with_parts(tiny, pacing=pacer, drafter="sparse", acceptance="rejection", draft_tokens=4)
    outputs = other.generate([PROMPT], SamplingParams(max_tokens=12, temperature=0.8, seed=4))
    assert outputs[0].speculation.drafted == outputs[0].speculation.draft_steps > 0
    assert not pacer.dropped


@pytest.mark.parametrize("rule", EXACT)
@pytest.mark.parametrize("pacer", NAMES)
@pytest.mark.parametrize("drafter", ["sparse", "lookup"])
def test_the_pacers_texts_are_plain_decodings(tiny, plain, drafter, pacer, rule):
    other = tiny.variant(drafter=drafter, pacer=pacer, acceptance=rule, draft_tokens=6)
    prompts, params = zip(*jobs(), strict=True)
    assert [out.token_ids for out in other.generate(prompts, params)] == plain
    assert not other._engine.parts.pacer._states


def test_greedy_texts_under_rejection(tiny, plain):
    """Causal: it stops where it likes, and verifies all."""
    greedy = [place for place, (_, params) in enumerate(jobs()) if params.temperature == 0]
    prompts, params = zip(*(jobs()[place] for place in greedy), strict=True)
    outputs = tiny.variant(drafter="sparse", pacer="marginal", acceptance="rejection").generate(prompts, params)
    assert [out.token_ids for out in outputs] == [plain[place] for place in greedy]


@pytest.mark.parametrize("rule", EXACT)
def test_blocks_are_cut_at_what_is_not_sure(tiny, plain, rule):
    """The toy drafter says which tokens are wrong: what is verified of its blocks is then nearly all right."""
    prompts, params = zip(*jobs(), strict=True)
    texts = texts_of(tuple(plain))
    shares = {}
    for pacer in ("fixed", "libraspec"):
        other = with_parts(tiny, Block(texts, 0.3), pacer=pacer, acceptance=rule, draft_tokens=4)
        outputs = other.generate(prompts, params)
        assert [out.token_ids for out in outputs] == plain
        counts = [sum(getattr(out.speculation, name) for out in outputs) for name in ("accepted", "drafted", "rounds")]
        shares[pacer] = counts[0] / counts[1], counts[0] / counts[2]
    assert shares["libraspec"][0] > 1.3 * shares["fixed"][0]
    assert shares["libraspec"][1] > 0.95 * shares["fixed"][1], "what is cut off was hardly ever accepted"


def choosy(llm, rule):
    """Rollback by what was drawn, of drafts drawn from a law of their own."""
    pacer = Choosy(2)
    return with_parts(llm, pacing=pacer, drafter="sparse", acceptance=rule, draft_tokens=2)


LAWS = {
    "choosy": choosy,
    "marginal": lambda llm, rule: llm.variant(drafter="sparse", pacer="marginal", acceptance=rule, draft_tokens=2),
    "blocks": lambda llm, rule: with_parts(llm, Switching(), pacer="libraspec", acceptance=rule, draft_tokens=2),
}


@pytest.mark.parametrize(
    ("rule", "kind"),
    [("coupled", "choosy"), ("matched", "choosy"), ("rejection", "marginal"), ("rejection", "blocks")],
)
def test_the_law_of_two_tokens(llm, law, rule, kind):
    """`rejection` has deterministic blocks cut anywhere, and `marginal` without rollback."""
    check(LAWS[kind](llm, rule).generate(PROMPT, PARAMS), law)


@pytest.mark.parametrize(("rule", "fits"), [("coupled", True), ("matched", True), ("rejection", False)])
def test_rollback_under_rejection_is_biased(llm, rule, fits):
    """What is refused below, put together by hand: a token that is not liked gets a second chance to be one that is."""
    warm = SamplingParams(**PARAMS.as_dict() | {"temperature": 4.0, "n": 500})
    outputs = choosy(llm, rule).generate(PROMPT, warm)
    first = outputs[0].token_ids[0]
    seconds = [out.token_ids[1] for out in outputs if out.token_ids[0] == first]
    greedy = llm.generate([[*PROMPT, first]], SamplingParams(max_tokens=1, temperature=0, logprobs=300))[0]
    logits = dict(greedy.logprobs[0].top)
    chances = torch.tensor([logits[token] / 4.0 for token in ALLOWED]).softmax(0).tolist()
    liked = sum(chance for token, chance in zip(ALLOWED, chances, strict=True) if likes(token))
    assert (binomtest(sum(map(likes, seconds)), len(seconds), liked).pvalue > 1e-4) == fits


def test_what_is_not_exact_is_refused_in_one_line(tiny, monkeypatch):
    with pytest.raises(ArgumentError, match="holds only if all that was drawn is verified") as refused:
        tiny.variant(drafter="sparse", pacer="libraspec", acceptance="rejection")
    assert "\n" not in str(refused.value)
    monkeypatch.setitem(PACERS.builtin, "choosy", f"{__name__}:Choosy")
    with pytest.raises(ArgumentError, match="pacer 'choosy' drops some of it"):
        tiny.variant(drafter="sparse", pacer="choosy", acceptance="rejection")
    tiny.variant(drafter="sparse", pacer="choosy", acceptance="matched")
    causal = tiny.variant(drafter="sparse", pacer="marginal", acceptance="rejection")._engine.parts.pacer
    assert not chain_pacer_of(causal).rolls_back


class Sampled(HostDrafter):
    """Draws whole drafts from a law of its own."""

    has_law = True


def test_whole_drafts_that_were_drawn_are_verified_whole_or_refused(tiny, monkeypatch):
    monkeypatch.setitem(DRAFTERS.builtin, "drawn", f"{__name__}:Sampled")
    for pacer in ("marginal", "entropy", "libraspec"):
        with pytest.raises(ArgumentError, match="holds only if all that"):
            tiny.variant(drafter="drawn", pacer=pacer, acceptance="rejection")
    for rule in sorted(REGISTRY.builtin):
        tiny.variant(drafter="drawn", pacer="fixed", acceptance=rule)
