"""A61-A63: counts that add up. The target's own token counts in the mean length, and nowhere as drafted or accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cases.doubles import Fixed, drafting, with_parts
from tests.cases.models import GREEDY, VOCAB, prompt, texts_of

from glimpse.llm import LLM
from glimpse.speculation import Speculation

IDS = prompt(30, "a61")


def wrong(token):
    return (token + 1) % VOCAB


def test_a61_v5_end_to_end(mtiny):
    """K = 4, three steps that accept 4, 0 and 2: nine tokens behind the one that the prompt gives."""
    ((_, text),) = texts_of(mtiny, [IDS], GREEDY)
    drafts = text[1:5], [wrong(token) for token in text[6:10]], [*text[7:9], *map(wrong, text[9:11])]
    llm = with_parts(mtiny, Fixed(*drafts), draft_tokens=4)
    stream, tokens = llm.stream(IDS, GREEDY), []
    for _ in range(4):
        tokens += next(stream).token_ids
    counts: Speculation = stream.output.speculation
    stream.close()
    assert tuple(tokens) == text[:10]
    assert (counts.drafted, counts.accepted, counts.rounds, counts.plain_steps) == (12, 6, 3, 0)
    assert counts.acceptance_rate == 0.5
    assert counts.mean_accepted_length == 3.0
    assert counts.acceptance_by_position == [2 / 3, 2 / 3, 1 / 3, 1 / 3]
    assert counts.emitted == 9
    assert counts.to_json()["acceptance_rate"] == 0.5


@pytest.mark.parametrize("name", ["LOOKUP", "ORACLE", "NOISY", "FIXED", "EMPTY", "SELF"])
def test_a61_a63_rates_and_meters_agree(mtiny, name):
    """Ids returned, tokens counted by the engine, and what a reader of the stream counts."""
    texts = texts_of(mtiny, [IDS], GREEDY)
    llm = drafting(mtiny, name, texts)
    chunks = list(llm.stream(IDS, GREEDY))
    out = chunks[-1].output
    counts, read = out.speculation, sum(len(chunk.token_ids) for chunk in chunks)
    assert 0 <= counts.acceptance_rate <= 1
    assert all(0 <= rate <= 1 for rate in counts.acceptance_by_position)
    assert len(out.token_ids) == out.usage.completion_tokens == out.timing.completion_tokens == read == 40
    assert counts.emitted == read - 1
    assert out.timing.tokens_per_s == pytest.approx((read - 1) / out.timing.decode_s)
    assert sum(piece.drafted for chunk in chunks for piece in chunk.pieces) == counts.accepted
    assert len(chunks) < read or counts.accepted == 0


@pytest.mark.parametrize("draft_tokens", [4, 8])
def test_a62_sub_counts_at_an_end_in_a_block(altered, mtiny, draft_tokens):
    """Cases A23 (the end of text falls into a block) and A29 (the limit does), with usage."""
    ((_, text),) = texts_of(mtiny, [IDS], GREEDY)
    end = text.index(text[6])
    ending = LLM(altered(eos_token_id=text[6]), drafter="none", pacer="fixed", device="cpu")
    runs = [(ending, GREEDY, end + 1), *((mtiny, replace(GREEDY, max_tokens=limit), limit) for limit in (1, 2, 13))]
    for llm, params, length in runs:
        out = drafting(llm, "ORACLE", [(IDS, text)], draft_tokens).generate([IDS], params)[0]
        usage, counts = out.usage, out.speculation
        assert usage.completion_tokens == len(out.token_ids) == length
        assert usage.prompt_tokens + usage.completion_tokens == usage.total_tokens == len(IDS) + length
        assert counts.accepted <= usage.completion_tokens
        assert counts.accepted <= counts.drafted
        assert sum(counts._accepted_at) == counts.accepted
