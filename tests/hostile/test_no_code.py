"""A checkpoint is data: nothing in it is run, and nothing in Glimpse can unpickle."""

from __future__ import annotations

import ast
import json
import pickle
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.tiny import write_json, write_tiny_checkpoint

import glimpse
from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.sampling import SamplingParams

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "glimpse").rglob("*.py")) + sorted((ROOT / "benchmarks").rglob("*.py"))
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml", "jsonpickle"}
CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "torch.jit.load", "os.system", "allow_pickle",
         "trust_remote_code"}  # fmt: skip


def names_of(tree: ast.AST) -> set[str]:
    """Modules imported, functions called by name, and arguments that are switched on."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call):
            found.add(ast.unparse(node.func))
            # numpy unpickles only where it is told to.
            found |= {word.arg for word in node.keywords if word.arg and ast.unparse(word.value) == "True"}
    return found


def test_no_source_unpickles_or_runs_text():
    assert len(SOURCES) > 150
    for path in SOURCES:
        wrong = names_of(ast.parse(path.read_text(encoding="utf-8"))) & (MODULES | CALLS)
        assert not wrong, f"{path.relative_to(ROOT)}: {wrong}"


def test_the_search_finds_what_it_looks_for():
    assert names_of(ast.parse("import pickle.x\nfrom yaml import load\ntorch.load(1)")) == {
        "pickle",
        "yaml",
        "torch.load",
    }


class Bomb:
    """Unpickled, it leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def touched_by(bomb: Path) -> str:
    """Python code that leaves a file when it is imported."""
    return f"import pathlib\npathlib.Path({str(bomb)!r}).touch()\n"


@pytest.fixture
def bomb(tmp_path):
    yield tmp_path / "boom"
    assert not (tmp_path / "boom").exists()


def use(folder: Path) -> None:
    llm = LLM(folder, max_batch_size=1)
    llm.chat([{"role": "user", "content": "hi"}], SamplingParams(max_tokens=2))


def test_code_beside_a_checkpoint_is_never_imported(tmp_path, bomb):
    folder = write_tiny_checkpoint(tmp_path / "model")
    for name in ("modeling_x", "configuration_x", "tokenization_x", "tokenizer", "glimpse"):
        (folder / f"{name}.py").write_text(touched_by(bomb))
    ways = {
        "AutoConfig": "configuration_x.C",
        "AutoModelForCausalLM": "modeling_x.M",
        "AutoTokenizer": [None, "tokenization_x.T"],
    }
    for name in ("config.json", "tokenizer_config.json"):
        path = folder / name
        write_json(path, json.loads(path.read_text()) | {"auto_map": ways, "trust_remote_code": True})
    with suppress(GlimpseError):
        use(folder)
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "model.safetensors", "tokenizer.json", "config.json"]
)
def test_a_pickle_by_any_name_is_not_opened(tmp_path, bomb, name):
    folder = write_tiny_checkpoint(tmp_path / "model")
    if name.endswith(("bin", "pt")):
        (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Bomb(bomb)))
    with pytest.raises(GlimpseError):
        use(folder)


def test_a_pickle_is_no_gguf_file(tmp_path, bomb):
    (tmp_path / "m.gguf").write_bytes(pickle.dumps(Bomb(bomb)))
    with pytest.raises(GlimpseError, match="not a GGUF file"):
        use(tmp_path / "m.gguf")


TEMPLATES = (
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.system('touch PATH') }}",
    "{{ self.__init__.__globals__ }}",
    "{{ messages.append(1) }}",
    "{% include '/etc/hostname' %}",
    "{% for i in range(10 ** 9) %}x{% endfor %}",
    "{{ 'a' * 10 ** 11 }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% if %}",
)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_reaches_nothing_outside(tmp_path, bomb, template):
    folder = write_tiny_checkpoint(tmp_path / "model")
    path = folder / "tokenizer_config.json"
    write_json(path, json.loads(path.read_text()) | {"chat_template": template.replace("PATH", str(bomb))})
    with pytest.raises(GlimpseError, match="chat template refuses"):
        use(folder)


def test_a_bomb_does_go_off_where_it_is_unpickled(tmp_path):
    """Or the tests above would prove nothing."""
    pickle.loads(pickle.dumps(Bomb(tmp_path / "boom")))
    assert (tmp_path / "boom").exists()
    assert glimpse.__all__
