"""Regular expressions that xgrammar would read past in part are refused, all others left to it."""

from __future__ import annotations

import pytest

from glimpse.errors import ArgumentError
from glimpse.sampling.patterns import refuse_overlooked


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("a$b", "[$] holds only"),
        ("$a", "[$] holds only"),
        ("a^b", r"\^ holds only"),
        ("(^a)*", r"\^ holds only"),
        ("[^]$]a", "[$] holds only"),
        ("(?=a)b", r"[(][?]=\.\.\.[)]"),
        ("a(?!b)", r"[(][?]!\.\.\.[)]"),
        ("(?<=a)b", "[(][?]<="),
        (r"ab\Z", r"\\Z is not known"),
        (r"[a\q]", r"\\q is not known"),
        (r"a\0", r"\\0 is not known"),
    ],
)
def test_what_would_be_read_past_is_refused(pattern, named):
    with pytest.raises(ArgumentError, match=named):
        refuse_overlooked(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "^ab$",
        "^a$|^b$",
        "a|",
        "",
        "(?<x>a)b",
        "(?:ab)",
        "[a^$]",
        "[^a$]",
        r"\^\$",
        r"\\",
        r"[\s\S]\d\w",
        r"\_",
        "(",
        "[",
        "\\",
    ],
)
def test_all_else_is_left_to_the_compiler(pattern):
    refuse_overlooked(pattern)
