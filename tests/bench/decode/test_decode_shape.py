"""Cells as they are typed."""

from __future__ import annotations

import pytest

from glimpse.bench.decode.shape import parse_cell
from glimpse.errors import ArgumentError


def test_a_cell_in_full_and_in_short():
    cell = parse_cell("demo@llama-3.1-8b:32000x16:4+7", "demo", [8])
    assert (cell.source, cell.twin, cell.context, cell.rows, cell.drafts) == ("demo", "llama-3.1-8b", 32000, 16, (4, 7))
    assert cell.name == "llama-3.1-8b 32000x16"
    short = parse_cell("8000x1", "a/b@c/m.gguf", [4, 8])
    assert (short.source, short.twin, short.name, short.drafts) == ("a/b@c/m.gguf", "", "m 8000x1", (4, 8))
    assert parse_cell(short.key, "demo", [1]) == short
    assert parse_cell("some/Model-1.5:700x2", "demo", [3]).name == "Model-1.5 700x2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("demo", "cell 'demo' is not of the form [MODEL[@SHAPE]:]CONTEXTxROWS"),
        ("demo:8000x1:4-8", "is not of the form"),
        ("demo@70b:8000x1", "unknown shape '70b'; known: llama-3.1-8b, 1.7b"),
        ("demo:8000x0", "rows must be from 1 to 4,096"),
        ("demo:8000x1:0", "draft lengths 0: each must be from 1 to 64"),
        ("demo:8x1", "a context of at least 64"),
    ],
)
def test_a_wrong_cell_is_named(text, words):
    with pytest.raises(ArgumentError) as error:
        parse_cell(text, "demo", [4])
    assert words in str(error.value)
