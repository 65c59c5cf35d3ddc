"""One way to call the command line in this process, on a model that is none."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from fake_llm import FakeLLM

from glimpse.cli import _session, app


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(_session, "open_llm", FakeLLM)
    return FakeLLM


@pytest.fixture
def glimpse(fake, capsys):
    """glimpse("generate", ...) -> code, out, err, llm, and json() of stdout."""

    def call(*argv: str) -> SimpleNamespace:
        FakeLLM.opened = None
        code = app.run(list(argv))
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err, llm=FakeLLM.opened, json=lambda: json.loads(out))

    return call
