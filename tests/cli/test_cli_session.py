"""Opening the model: what it warns of."""

import warnings

from glimpse.cli import _session
from glimpse.cli.options import ModelOptions
from glimpse.engine.place import DeviceWarning


def test_a_gpu_that_cannot_be_used_is_one_line_and_other_warnings_stay(monkeypatch, capsys):
    def opened(**_):
        warnings.warn("something else", UserWarning, stacklevel=2)
        warnings.warn("running on the CPU: an old driver", DeviceWarning, stacklevel=2)

    monkeypatch.setattr("glimpse.llm.LLM", opened)
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        for _ in range(2):
            _session.open_llm(ModelOptions(model="x"), lambda *_: None)
    assert capsys.readouterr().err == "glimpse: running on the CPU: an old driver\n" * 2
    assert [str(warning.message) for warning in others] == ["something else"] * 2
