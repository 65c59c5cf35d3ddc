"""A57, A58: however many tokens arrive at a time, the pieces join to the text, and no character is torn."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from tests.cases.doubles import drafting
from tests.cases.mini import mini
from tests.cases.models import GREEDY, prompt
from tests.cases.scripted import follow_script
from tests.cases.verdicts import ledger

from glimpse.engine.commit import Committer
from glimpse.engine.text import TextStream

TEXT = "naïve 🤗 한국어 日本 e.g. a . b"
IDS = prompt(9)


@pytest.fixture
def llm(tmp_path):
    return mini(tmp_path, max_context=256)


def cuts(count):
    """Every way to cut a list of `count` items into pieces."""
    for size in range(count):
        for places in combinations(range(1, count), size):
            yield list(pairwise((0, *places, count)))


@pytest.mark.parametrize(
    "options", [{}, {"stop_strings": ["b 한"]}, {"stop_strings": ["zzz"]}, {"stop_token_ids": "last"}],
    ids=["plain", "stops", "does not stop", "stop token"],
)  # fmt: skip
def test_a57_every_cut_of_a_token_list(llm, options):
    """All 2,048 ways to hand over 12 tokens."""
    tokens = llm.tokenizer.encode("a b 한국 c.", add_special_tokens=False)[:12]
    if options.get("stop_token_ids"):
        options = {"stop_token_ids": [tokens[-2]]}
    found = set()
    for cut in cuts(len(tokens)):
        committer = Committer(TextStream(llm.tokenizer), max_tokens=len(tokens), context_room=100, **options)
        pieces = []
        for begin, end in cut:
            if committer.finish_reason is None:
                commit = committer.commit(tokens[begin:end])
                pieces.append(commit.text)
                assert len(commit.pieces) == len(commit.token_ids)
        assert "".join(pieces) == committer.text
        found.add((committer.text, tuple(committer.token_ids), committer.finish_reason, committer.stop_reason))
    assert len(found) == 1


@pytest.mark.parametrize("draft_tokens", [1, 2, 3, 5, 8, 16])
def test_a57_a_stream_of_any_block_length_is_the_answer(llm, monkeypatch, draft_tokens):
    script = llm.tokenizer.encode(TEXT, add_special_tokens=False)
    follow_script(monkeypatch, llm, IDS, script)
    fast, params = drafting(llm, "ORACLE", [(IDS, script)], draft_tokens), replace(GREEDY, max_tokens=len(script))
    with ledger(fast):
        out = fast.generate([IDS], params)[0]
        chunks = list(fast.stream(IDS, params))
    assert max(len(chunk.token_ids) for chunk in chunks) == draft_tokens + 1
    assert "".join(chunk.text for chunk in chunks) == out.text == TEXT
    assert tuple(token for chunk in chunks for token in chunk.token_ids) == out.token_ids == tuple(script)


@pytest.mark.parametrize("draft_tokens", [0, 1, 4])
def test_a58_no_character_is_torn(llm, monkeypatch, draft_tokens):
    script = llm.tokenizer.encode(TEXT, add_special_tokens=False)
    follow_script(monkeypatch, llm, IDS, script)
    fast = drafting(llm, "ORACLE", [(IDS, script)], draft_tokens or 1) if draft_tokens else llm
    chunks = list(fast.stream(IDS, replace(GREEDY, max_tokens=len(script))))
    assert not any("\ufffd" in chunk.text for chunk in chunks)
    assert not any("\ufffd" in piece.text for chunk in chunks for piece in chunk.pieces)
    assert "".join(chunk.text for chunk in chunks) == llm.tokenizer.decode(script) == TEXT


@pytest.mark.parametrize("draft_tokens", [0, 3])
def test_a58_an_end_in_a_character_is_flushed_once(llm, monkeypatch, draft_tokens):
    """Every place to end: the text is what decoding in one go gives, its unfinished tail shown with the last token."""
    script = llm.tokenizer.encode("é🤗한", add_special_tokens=False)
    follow_script(monkeypatch, llm, IDS, script)
    fast = drafting(llm, "ORACLE", [(IDS, script)], draft_tokens) if draft_tokens else llm
    torn = 0
    for end in range(1, len(script) + 1):
        chunks = list(fast.stream(IDS, replace(GREEDY, max_tokens=end)))
        whole = llm.tokenizer.decode(script[:end])
        assert "".join(chunk.text for chunk in chunks) == whole == chunks[-1].output.text
        shown = [piece.text for chunk in chunks for piece in chunk.pieces]
        assert not any("\ufffd" in text for text in shown[:-1])
        torn += whole.endswith("\ufffd")
    assert torn == len(script) - 3


def test_a58_spaces_survive_decoding_token_by_token(llm, monkeypatch):
    text = " a  b\n\n  c . d "
    script = llm.tokenizer.encode(text, add_special_tokens=False)
    follow_script(monkeypatch, llm, IDS, script)
    chunks = list(llm.stream(IDS, replace(GREEDY, max_tokens=len(script))))
    assert all(len(chunk.token_ids) == 1 for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks) == text
