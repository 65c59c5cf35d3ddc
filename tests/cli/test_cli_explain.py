"""`--explain`: what drafter auto chose, when and by which numbers; refused where there is nothing to explain."""

from __future__ import annotations

import pytest

ASKED = ("--prompt", "Hello", "--drafter", "auto")


@pytest.mark.parametrize(("command", "where"), [("generate", "err"), ("compare", "out")])
def test_every_choice_is_a_line_with_its_numbers(glimpse, command, where):
    ran = glimpse(command, *ASKED, "--explain")
    assert ran.code == 0
    lines = [line.split() for line in getattr(ran, where).splitlines()]
    assert ["token", "drafter", "plain", "none", "suffix"] in lines
    assert ["1", "suffix", "20.0", "ms", "1.00×", "1.11×"] in lines
    assert ["27", "none", "20.0", "ms", "1.00×", "0.93×"] in lines
    assert getattr(ran, where).count("because of the GPU") == 1


def test_where_no_drafter_is_named_it_is_auto_and_may_be_explained(glimpse):
    ran = glimpse("generate", "--prompt", "Hello", "--explain")
    assert (ran.code, ran.err.count("because of the GPU")) == (0, 1)


def test_unasked_it_is_in_the_json_only(glimpse):
    assert "chosen from a token on" not in glimpse("generate", *ASKED).err
    choices = glimpse("generate", *ASKED, "--json").json()["speculation"]["choices"]
    assert choices[1] == {"position": 27, "drafter": "none", "expected": {"none": 1.0, "suffix": 0.93},
                          "plain_ms": 20.0, "note": "because of the GPU"}  # fmt: skip


@pytest.mark.parametrize("command", ["generate", "compare"])
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--explain", "--pacer", "fixed"), "drafter lookup chooses nobody: add --drafter auto"),
        (("--explain", "--drafter", "sparse"), "drafter sparse chooses nobody"),
        (("--explain", "--drafter", "auto", "--quiet"), "--quiet hides the report"),
    ],
)
def test_it_is_refused_where_there_is_nothing_to_show(glimpse, command, argv, said):
    ran = glimpse(command, "--prompt", "Hello", *argv)
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_the_editing_demo(glimpse):
    ran = glimpse("compare", "--demo-edit", "--drafter", "auto", "--no-chat")
    assert ran.code == 0
    text = "def scanstring"
    assert len(ran.llm.prompts[0]) <= 450
    assert len(ran.llm.prompts[0]) > 10 * len(text)
    assert ran.llm.params[0].temperature == 0
    assert glimpse("compare", "--demo", "--demo-edit").code == 2
    assert "--demo-edit brings its own text" in glimpse("compare", "--demo-edit", "--prompt-file", "x").err
