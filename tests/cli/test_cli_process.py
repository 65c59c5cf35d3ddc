"""The command as a process: Ctrl-C at every stage, pipes that close, full disks, and how soon it answers."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

FAKE = str(Path(__file__).with_name("fake_llm.py"))
SRC = str(Path(__file__).parents[2] / "src")


def start(*argv, sleep="", **streams):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    env = os.environ | {"PYTHONPATH": SRC, "FAKE_SLEEP": sleep}
    # A job in the background is born deaf to Ctrl-C, and so would be its children.
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen([sys.executable, FAKE, *argv], env=env, text=True, preexec_fn=listen, **streams)


def interrupted(stage, *argv):
    """Ctrl-C as soon as the stage has begun -> code, stdout, stderr."""
    process = start(*argv, "--prompt", "Hello", sleep=stage)
    seen = ""
    while f"{stage} begins" not in seen:
        line = process.stderr.readline()
        assert line, "it ended before the stage began"
        seen += line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err


@pytest.mark.parametrize(("stage", "text"), [("weights", None), ("prefill", ""), ("decode", "The cat sat")])
def test_ctrl_c_ends_with_what_was_written_so_far(stage, text):
    code, out, err = interrupted(stage, "generate", "--json")
    assert code == 130
    assert "Traceback" not in err
    assert "glimpse: interrupted" in err
    if text is None:
        assert out == ""
        return
    result = json.loads(out)
    assert (result["text"], result["finish_reason"]) == (text, "abort")
    assert result["usage"]["completion_tokens"] == len(result["token_ids"]) == len(text.split())
    assert result["timing"]["prefill_s"] == 0.25
    assert result["settings"]["drafter"] == result["speculation"]["drafter"] == "auto"


def test_ctrl_c_in_text_mode_keeps_the_text():
    code, out, err = interrupted("decode", "generate")
    assert code == 130
    assert out.endswith("The cat sat\n")
    assert "interrupted after 3 tokens" in err
    assert "ended by abort" in err
    assert "drafter auto" in err


@pytest.mark.parametrize(
    ("stage", "text", "reason"), [("decode", "The cat sat", "abort"), ("baseline", "The cat sat on the mat.", "stop")]
)
def test_ctrl_c_in_compare(stage, text, reason):
    code, out, err = interrupted(stage, "compare", "--json")
    assert code == 130
    result = json.loads(out)
    assert (result["speculative"]["text"], result["speculative"]["finish_reason"]) == (text, reason)
    assert (result["baseline"], result["identical"]) == (None, None)
    assert "Traceback" not in err


def test_a_reader_that_goes_away_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        process = start("generate", "--prompt", "Hello", "--quiet", stdout=pipe)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line_and_exit_1():
    with open("/dev/full", "w") as full:
        process = start("generate", "--prompt", "Hello", "--quiet", stdout=full)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (1, "glimpse: No space left on device\n")


@pytest.mark.skipif(os.name != "posix", reason="closes streams through sh")
@pytest.mark.parametrize(
    ("closed", "argv", "code", "said"),
    [
        (">&-", ["--prompt", "Hello"], 1, "glimpse: standard output is closed; send it somewhere"),
        ("<&-", ["--prompt-file", "-"], 2, "glimpse: --prompt-file - reads standard input, and that is closed"),
    ],
)
def test_a_closed_stream_is_one_line(closed, argv, code, said):
    env = os.environ | {"PYTHONPATH": SRC}
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, FAKE, "generate", *argv]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert done.stderr.startswith(said)


@pytest.mark.skipif(os.name != "posix", reason="closes streams through sh")
def test_without_stderr_the_text_still_comes():
    env = os.environ | {"PYTHONPATH": SRC}
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, FAKE, "generate", "--prompt", "Hello"]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=30, check=False)
    assert done.returncode == 0
    assert done.stdout.endswith("The cat sat on the mat.\n")


@pytest.mark.parametrize(
    "argv", [["--help"], ["generate", "--top-k", "x"], ["generate"], ["generate", "--prompt-file", "no"]]
)
def test_help_and_argument_errors_import_nothing_heavy(argv):
    code = f"import sys; from glimpse.cli.app import run; run({argv!r}); sys.exit('torch' in sys.modules)"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": SRC}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - began < 5  # half a second on a free machine; this one may be busy
