"""A36: an empty prompt is refused, and the next request is answered; the shortest ones work."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cases.doubles import NAMES, drafting
from tests.cases.models import GREEDY, plain, ref
from tests.cases.verdicts import eq, ledger

from glimpse.cli import app
from glimpse.errors import ArgumentError

SHORT = replace(GREEDY, max_tokens=12)


@pytest.mark.parametrize("empty", ["", [], [[]], [""], [[5, 6], []], ["a", ""]])
@pytest.mark.parametrize("name", ["LOOKUP", "SELF"])
def test_a36_an_empty_prompt_is_refused_and_the_next_request_works(mtiny, name, empty):
    fast = drafting(mtiny, name)
    with ledger(fast), pytest.raises(ArgumentError, match="the prompt is empty; give at least one token"):
        fast.generate(empty, SHORT)
    eq(fast.generate([5], SHORT), ref(mtiny, [[5]], SHORT))


def test_a36_an_empty_stream_and_an_empty_comparison_are_refused_alike(mtiny):
    fast = drafting(mtiny, "LOOKUP")
    with ledger(fast):
        with pytest.raises(ArgumentError, match="the prompt is empty"):
            fast.stream("", SHORT)
        with pytest.raises(ArgumentError, match="the prompt is empty"):
            fast.compare([], SHORT)


@pytest.mark.parametrize("given", [" ", "a", [5], [1], [1, 1]])
@pytest.mark.parametrize("name", NAMES)
def test_a36_a_space_one_token_and_bos_alone(mtiny, name, given):
    """Token 1 is the BOS token."""
    ids = mtiny.tokenizer.encode(given) if isinstance(given, str) else given
    right = plain(mtiny).generate([ids], SHORT)[0]
    out = drafting(mtiny, name, [(ids, right.token_ids)]).generate([given], SHORT)[0]
    eq([out], [right.token_ids])
    assert out.usage.prompt_tokens == len(ids)


@pytest.mark.parametrize("given", [["--prompt", ""], ["--prompt-file", "EMPTY"]])
def test_a36_the_command_line_exits_with_2(tiny_folder, tmp_path, capsys, given):
    file = tmp_path / "empty.txt"
    file.write_text("")
    argv = [str(file) if part == "EMPTY" else part for part in given]
    assert app.run(["generate", "-m", str(tiny_folder), "--device", "cpu", "--max-tokens", "3", *argv]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert "empty" in said[-1]
