"""When sources read: with the next draft, and not too much at once."""

from __future__ import annotations

import pytest
from tests.drafting.histories import rows_of

from glimpse.drafting import reader
from glimpse.drafting.reader import LateReader, trees_of, unread
from glimpse.drafting.tree import chain_tree


class Noted:
    """A source that notes what it is told."""

    def __init__(self):
        self.text, self.learned = [], []

    def read(self, tokens):
        self.text += tokens

    def learn(self, committed):
        self.learned.append(list(committed))

    def propose(self, budget, depth):
        return chain_tree(self.text[-1:], [0.5])


def readers_of(rows):
    return {slot: LateReader(Noted()) for slot in rows.slots}


def commit(rows, slot, tokens, readers):
    rows.rows.commit(slot, tokens, int(rows.rows.committed_len[slot]))
    readers[slot].hear(tokens)


def test_a_row_is_read_with_its_drafts():
    rows = rows_of([1, 2, 3])
    readers = readers_of(rows)
    commit(rows, 0, [4], readers)
    assert readers[0].source.text == []
    assert trees_of(readers, rows, [8], 8)[0].tokens.tolist() == [4]
    commit(rows, 0, [5, 6], readers)
    assert readers[0].source.text == [1, 2, 3, 4]
    trees_of(readers, rows, [8], 8)
    assert readers[0].source.text == [1, 2, 3, 4, 5, 6]
    assert readers[0].source.learned == [[4], [5, 6]]


@pytest.mark.parametrize(
    ("most", "drafted"), [(6, [1, 1, 0, 0]), (8, [1, 1, 1, 0]), (9, [1, 1, 1, 1]), (2, [0, 0, 0, 0])]
)
def test_long_texts_are_read_in_turn(monkeypatch, most, drafted):
    """Of 3, 2, 3 and 1 tokens: no step reads more than `most`; who is not read to its end drafts nothing."""
    monkeypatch.setattr(reader, "AT_ONCE", most)
    rows = rows_of([1, 2, 3], [4, 5], [6, 7, 8], [9])
    readers = readers_of(rows)
    assert [len(tree) for tree in trees_of(readers, rows, [8] * 4, 8)] == drafted
    assert sum(len(own.source.text) for own in readers.values()) == most
    assert unread(readers, rows) == {slot for slot in range(4) if not drafted[slot]}
    for _ in range(4):
        trees = trees_of(readers, rows, [8] * 4, 8)
    assert [len(tree) for tree in trees] == [1, 1, 1, 1]
    assert [readers[slot].source.text for slot in range(4)] == [[1, 2, 3], [4, 5], [6, 7, 8], [9]]


def test_a_text_is_read_in_pieces():
    rows = rows_of([1, 2, 3, 4, 5])
    own, text = readers_of(rows)[0], rows.rows.tokens.numpy()[0, :5]
    assert [own.read(text, 2) for _ in range(4)] == [2, 2, 1, 0]
    assert own.source.text == [1, 2, 3, 4, 5]


def test_a_draft_that_is_looked_at_is_judged_by_all_that_came():
    """Not token by token, as the steps write it, and not once a draft has been verified since."""
    rows = rows_of([1, 2, 3])
    readers = readers_of(rows)
    own = readers[0]
    trees_of(readers, rows, [8], 8)
    commit(rows, 0, [4, 5], readers)
    assert own.look(8, 8).tokens.tolist() == [3], "behind what was read"
    for token in (6, 7):
        commit(rows, 0, [token], readers)
    assert own.source.learned == [[4, 5]]
    own.judge([6, 7])
    assert own.source.learned == [[4, 5], [6, 7]]
    trees_of(readers, rows, [8], 8)
    own.judge([6, 7, 8])
    commit(rows, 0, [8], readers)
    assert own.source.learned == [[4, 5], [6, 7], [8]]
