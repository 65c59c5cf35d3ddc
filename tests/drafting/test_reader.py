"""When sources read: with the next draft, and not too much at once."""

from __future__ import annotations

import pytest
from tests.drafting.histories import rows_of

from glimpse.drafting import reader
from glimpse.drafting.reader import LateReader, trees_of
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
    assert readers[0].fresh
    assert readers[0].source.text == []
    assert trees_of(readers, rows, [8], 8)[0].tokens.tolist() == [4]
    commit(rows, 0, [5, 6], readers)
    assert readers[0].source.text == [1, 2, 3, 4]
    trees_of(readers, rows, [8], 8)
    assert readers[0].source.text == [1, 2, 3, 4, 5, 6]
    assert readers[0].source.learned == [[4], [5, 6]]


@pytest.mark.parametrize(
    ("most", "drafted"), [(6, [1, 1, 0, 1]), (7, [1, 1, 0, 1]), (9, [1, 1, 1, 1]), (2, [1, 0, 0, 0])]
)
def test_long_texts_are_read_in_turn(monkeypatch, most, drafted):
    """Of 3, 2, 3 and 1 tokens: the first is read whatever its length, and each that still fits."""
    monkeypatch.setattr(reader, "AT_ONCE", most)
    rows = rows_of([1, 2, 3], [4, 5], [6, 7, 8], [9])
    readers = readers_of(rows)
    assert [len(tree) for tree in trees_of(readers, rows, [8] * 4, 8)] == drafted
    for _ in range(3):
        trees = trees_of(readers, rows, [8] * 4, 8)
    assert [len(tree) for tree in trees] == [1, 1, 1, 1]
    assert [readers[slot].source.text for slot in range(4)] == [[1, 2, 3], [4, 5], [6, 7, 8], [9]]
