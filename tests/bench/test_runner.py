"""One suite from the command line: options, interruption, result file."""

import subprocess

import pytest

from glimpse.bench import environment
from glimpse.bench.folder import alone_in
from glimpse.bench.results import UNKNOWN_COMMIT, Target, read_result
from glimpse.bench.runner import Findings, Suite, main
from glimpse.bench.texts import NoText
from glimpse.errors import GlimpseError


@pytest.fixture
def root(tmp_path):
    """A git checkout with one source file."""
    folder = tmp_path / "repo"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "code.py").write_text("x = 1\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "-C", str(folder), *identity, *command], check=True)
    return folder


def suite(measured, stop_at=None):
    def body(bench):
        def measure(n):
            if n == stop_at:
                raise KeyboardInterrupt
            measured.append(n)
            return {"value": n * bench.settings["factor"]}

        cells = [bench.cell(f"cell {n}", lambda n=n: measure(n)) for n in range(3)]
        return Findings([Target("sum", ">= 30", sum(cell["value"] for cell in cells))])

    return Suite("toy", "A toy.", {"factor": 10}, {"factor": 1}, body)


def test_an_interrupted_run_goes_on(root, tmp_path, capsys):
    measured, out = [], ["--out", str(tmp_path / "out"), "--threads", "1"]
    assert main(suite(measured, stop_at=2), root, out) == 130
    assert measured == [0, 1]
    assert main(suite(measured), root, out) == 0
    assert measured == [0, 1, 2], "finished cells are not measured again"
    result = read_result(tmp_path / "out" / "cpu-toy.json")
    assert [run["value"] for run in result.runs] == [0, 10, 20]
    assert result.targets[0].ok
    assert not result.dirty
    assert not result.quick
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["cpu-toy.json"]
    assert ">= 30" in capsys.readouterr().out


def test_other_code_is_measured_anew(root, tmp_path):
    measured, out = [], ["--out", str(tmp_path / "out"), "--threads", "1"]
    main(suite(measured, stop_at=2), root, out)
    (root / "src" / "code.py").write_text("x = 2\n")
    assert main(suite(measured), root, out) == 0
    assert measured == [0, 1, 0, 1, 2]
    assert read_result(tmp_path / "out" / "cpu-toy.json").dirty


def test_a_foreign_checkout_says_nothing_of_this_code(root, monkeypatch):
    assert environment.known_commit(root, None) == (UNKNOWN_COMMIT, True)
    monkeypatch.setattr(environment, "__file__", str(root / "src" / "code.py"))
    assert environment.known_commit(root, None) == (environment.commit(root)[0], False)
    (root / "src" / "new.py").write_text("")
    monkeypatch.setattr(environment, "__file__", str(root / "src" / "new.py"))
    assert environment.known_commit(root, None) == (UNKNOWN_COMMIT, True)


def test_a_suite_that_measures_nothing_leaves_nothing(root, tmp_path):
    assert main(suite([], stop_at=0), root, ["--out", str(tmp_path / "out"), "--threads", "1"]) == 130
    assert not list((tmp_path / "out").iterdir())


def test_a_suite_needs_its_folder_alone(root, tmp_path, capsys):
    with alone_in(tmp_path, "toy"):
        assert main(suite([]), root, ["--out", str(tmp_path), "--threads", "1"]) == 1
    assert "is in use by another run of toy; give another --out" in capsys.readouterr().err


def test_quick_uses_its_own_settings_and_says_so(root, tmp_path):
    out = tmp_path / "out"
    assert main(suite([]), root, ["--quick", "--out", str(out), "--threads", "1"]) == 0
    result = read_result(out / "cpu-toy.json")
    assert result.quick
    assert result.settings["factor"] == 1
    assert "falls short by 90.0%" in result.targets[0].note


def test_missing_text_leaves_the_suite_out(root, tmp_path, capsys):
    def body(bench):
        raise NoText("no books here")

    assert main(Suite("toy", "A toy.", {}, {}, body), root, ["--out", str(tmp_path), "--threads", "1"]) == 0
    assert "left out: no books here" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.json"))


def test_results_and_readme_do_not_make_a_checkout_dirty(root):
    (root / "benchmarks" / "results").mkdir(parents=True)
    (root / "benchmarks" / "results" / "cpu-toy.json").write_text("{}")
    (root / "README.md").write_text("new")
    assert environment.commit(root)[1] is False
    (root / "src" / "more.py").write_text("")
    assert environment.commit(root)[1] is True


def test_without_git_the_error_says_so(tmp_path):
    with pytest.raises(GlimpseError, match="no git checkout"):
        environment.commit(tmp_path)


def test_code_of_an_earlier_commit_is_known_again(root):
    head = environment.commit(root)[0]
    (root / "README.md").write_text("new")
    assert environment.is_code_of(root, head)
    (root / "src" / "more.py").write_text("")
    assert not environment.is_code_of(root, head)
    (root / "src" / "more.py").unlink()
    (root / "src" / "code.py").write_text("x = 3\n")
    assert not environment.is_code_of(root, head)
    assert not environment.is_code_of(root, "0" * 40)
