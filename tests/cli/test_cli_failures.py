"""How a command fails: exit codes, one line on stderr, tracebacks only when asked for."""

import errno

import pytest

from glimpse.cli import _session, app
from glimpse.errors import ArgumentError, GlimpseError, ModelError


def _raising(error):
    def open_llm(options, progress):
        raise error

    return open_llm


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            ArgumentError("prompt of 9,000 tokens\nis longer than the context of 8,192"),
            2,
            "prompt of 9,000 tokens is longer",
        ),
        (ModelError("weights are cut short"), 1, "weights are cut short"),
        (GlimpseError("no"), 1, "no"),
        (MemoryError(), 1, "out of memory"),
        (OSError(errno.ENOSPC, "No space left on device", "model.gguf"), 1, "No space left on device: model.gguf"),
        (RuntimeError("odd\nthing"), 1, "unexpected RuntimeError: odd (--debug shows where)"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_each_error_is_one_line_with_its_code(monkeypatch, capsys, error, code, line):
    monkeypatch.setattr(_session, "open_llm", _raising(error))
    assert app.run(["generate", "--prompt", "x", "--json"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"glimpse: {line}")
    assert err.count("\n") == 1


def test_debug_adds_the_traceback(monkeypatch, capsys):
    monkeypatch.setattr(_session, "open_llm", _raising(ModelError("weights are cut short")))
    assert app.run(["generate", "--prompt", "x", "--debug"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("glimpse: weights are cut short\n")


@pytest.mark.parametrize(
    ("argv", "code"),
    [(["--help"], 0), (["generate", "-h"], 0), (["--version"], 0), ([], 2), (["genrate"], 2), (["--nope"], 2)],
)
def test_help_and_usage(capsys, argv, code):
    assert app.run(argv) == code
    out, err = capsys.readouterr()
    assert bool(out) is (code == 0)
    assert err.count("\n") == (0 if code == 0 else 1)
