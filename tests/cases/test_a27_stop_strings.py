"""A27-A28: stop strings end the output at their first match, wherever in a block they begin and end."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
from tests.cases.doubles import drafting, watched
from tests.cases.models import GREEDY, narrow, prompt, ref

from glimpse.engine.commit import Committer
from glimpse.engine.text import TextStream
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

IDS = prompt(30)


@pytest.fixture(scope="module")
def letters(tiny):
    """Parameters under which every token is one letter, and the greedy text of IDS under them."""
    ids = [tiny.tokenizer.encode(letter)[0] for letter in string.ascii_letters]
    params = narrow(GREEDY, ids)
    (tokens,) = ref(tiny, [IDS], params)
    written = tiny.tokenizer.decode(tokens)
    assert len(written) == 40
    return params, tokens, written


def replayed(llm: LLM, tokens: tuple[int, ...], draft_tokens: int) -> LLM:
    return drafting(llm, "ORACLE", [(IDS, tokens)], draft_tokens)


def first(written: str, *stops: str) -> int:
    """Where the earliest match begins."""
    return min(written.index(stop) for stop in stops if stop in written)


def test_a27_a_stop_within_the_limit_hidden_by_a_block_that_crosses_it(mtiny, letters):
    params, tokens, written = letters
    stop = written[2:4]
    assert first(written, stop) == 2
    fast, rule = watched(replayed(mtiny, tokens, 8))
    out = fast.generate(IDS, replace(params, max_tokens=7, stop=[stop]))[0]
    assert (out.token_ids, out.text) == (tokens[:4], written[:2])
    assert (out.finish_reason, out.stop_reason) == ("stop", stop)
    assert rule.rounds[-1].position + len(rule.rounds[-1].emitted) - len(IDS) >= 7


def test_a27_a_stop_behind_the_limit(mtiny, letters):
    params, tokens, written = letters
    for draft_tokens in (1, 4, 16):
        fast = replayed(mtiny, tokens, draft_tokens)
        out = fast.generate(IDS, replace(params, max_tokens=7, stop=[written[7:10]]))[0]
        assert (out.token_ids, out.text, out.finish_reason) == (tokens[:7], written[:7], "length")
        out = fast.generate(IDS, replace(params, max_tokens=7, stop=[written[4:7]]))[0]
        assert (out.token_ids, out.text, out.finish_reason) == (tokens[:7], written[:4], "stop")


@pytest.mark.parametrize("draft_tokens", [1, 2, 3, 15])
def test_a28_a_stop_at_every_offset_of_a_block(mtiny, letters, draft_tokens):
    """Blocks of up to 16 tokens; the stop of three begins at each of the first 18, so some span two blocks."""
    params, tokens, written = letters
    offsets = [offset for offset in range(18) if first(written, written[offset : offset + 3]) == offset]
    assert len(offsets) > 12
    fast = replayed(mtiny, tokens, draft_tokens)
    asked = [replace(params, stop=[written[offset : offset + 3]]) for offset in offsets]
    for offset, own in zip(offsets, asked, strict=True):
        chunks = list(fast.stream(IDS, own))
        out = chunks[-1].output
        assert (out.text, out.token_ids) == (written[:offset], tokens[: offset + 3])
        assert (out.finish_reason, out.stop_reason) == ("stop", own.stop[0])
        assert "".join(chunk.text for chunk in chunks) == out.text


class Letters:
    """A tokenizer whose token ids are code points."""

    def decode(self, ids, *, skip_special_tokens):
        return "".join(map(chr, ids))


def test_a28_every_offset_and_every_cut_of_a_block():
    """16 letters with the stop at each offset, handed over in two blocks cut anywhere."""
    for offset in range(14):
        letters = ("ab" * 8)[:offset] + "xyz" + ("ab" * 8)[offset + 3 :]
        for cut in range(17):
            committer = Committer(TextStream(Letters()), max_tokens=None, context_room=99, stop_strings=["xyz", "zz"])
            made = [committer.commit([ord(letter) for letter in letters[:cut]])] if cut else []
            if committer.finish_reason is None:
                made.append(committer.commit([ord(letter) for letter in letters[cut:]]))
            assert committer.text == "".join(part.text for part in made) == letters[:offset]
            assert len(committer.token_ids) == offset + 3
            assert (committer.finish_reason, committer.stop_reason) == ("stop", "xyz")


def test_a28_of_several_stops_the_first_to_come(mtiny, letters):
    params, tokens, written = letters
    stops = [written[9:12], written[4:6], written[20:24]]
    for draft_tokens in (1, 5, 16):
        out = replayed(mtiny, tokens, draft_tokens).generate(IDS, replace(params, stop=stops))[0]
        assert out.text == written[: first(written, *stops)]
        assert out.token_ids == ref(mtiny, [IDS], replace(params, stop=stops))[0]


def test_a28_sampled_text_stops_alike_on_both_paths(mtiny, letters):
    params = replace(letters[0], temperature=1.0, stop=["e", "Q", "th"])
    asked = [replace(params, seed=seed) for seed in range(12)]
    assert isinstance(params, SamplingParams)
    plain = mtiny.generate([IDS] * 12, asked)
    fast = mtiny.variant(drafter="sparse", pacer="fixed", draft_tokens=6).generate([IDS] * 12, asked)
    for one, other in zip(plain, fast, strict=True):
        assert (one.text, one.token_ids, one.stop_reason) == (other.text, other.token_ids, other.stop_reason)
    assert sum(out.finish_reason == "stop" for out in fast) > 3
