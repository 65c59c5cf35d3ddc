"""What a measurement ran on: machine, versions, commit."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from glimpse.bench.results import UNKNOWN_COMMIT
from glimpse.errors import ArgumentError, GlimpseError

CODE = ("src", "benchmarks", "pyproject.toml")
"""What a result depends on; results and README are written by the benchmarks themselves and do not count."""


def device() -> dict[str, object]:
    """The machine, as `Result.device` wants it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "kind": "cpu",
        "name": _cpu_name(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "memory_gib": round(memory / 2**30, 1),
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def device_of(chosen: torch.device) -> dict[str, object]:
    """The same with the GPU in place of the CPU, where that is what a model runs on."""
    if chosen.type != "cuda":
        return device()
    found = torch.cuda.get_device_properties(chosen)
    return device() | {
        "kind": found.name.lower().removeprefix("nvidia ").replace(" ", "-"),
        "name": found.name,
        "memory_gib": round(found.total_memory / 2**30, 1),
        "capability": f"{found.major}.{found.minor}",
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result depends on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": _version("transformers"),
        "glimpse": _version("glimpse-llm"),
    }


def commit(root: Path) -> tuple[str, bool]:
    """The commit checked out in `root`, and whether the code there differs from it. Raises GlimpseError without git."""
    head = _git(root, "rev-parse", "HEAD").strip()
    changed = _git(root, "status", "--porcelain", "--", *CODE, ":(exclude)benchmarks/results")
    return head, bool(changed.strip())


def source_root() -> Path:
    """The folder that this package's `src` lies in, be it a checkout or not."""
    return Path(__file__).resolve().parents[3]


def known_commit(root: Path, told: str | None) -> tuple[str, bool]:
    """The commit `told`, else what git says of `root`, else `UNKNOWN_COMMIT` (which counts as changed).

    Git is believed only where it tracks this very file: a package installed below another project's checkout is not
    of that project's commit.
    Raises ArgumentError for a commit that is not 40 hexadecimal digits.
    """
    if told is not None:
        if len(told) != 40 or set(told) - set("0123456789abcdef"):
            raise ArgumentError(f"commit {told!r} is not 40 hexadecimal digits, as git rev-parse HEAD prints them")
        return told, False
    try:
        _git(root, "ls-files", "--error-unmatch", "--", str(Path(__file__).resolve()))
        return commit(root)
    except GlimpseError:
        return UNKNOWN_COMMIT, True


def is_code_of(root: Path, head: str) -> bool:
    """Whether the code in `root` is, file for file, that of an earlier commit; False where git does not know it."""
    new = _git(root, "ls-files", "--others", "--exclude-standard", "--", *CODE, ":(exclude)benchmarks/results")
    command = ["git", "-C", str(root), "diff", "--quiet", head, "--", *CODE, ":(exclude)benchmarks/results"]
    return not new.strip() and subprocess.run(command, capture_output=True, check=False).returncode == 0


def code_digest(root: Path) -> str:
    """A digest of the source files, which tells whether measurements of an interrupted run may be kept."""
    files = [path for name in CODE for path in _files(root / name)]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def package_digest() -> str:
    """The same of this package alone, wherever it is installed."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _files(path: Path) -> Sequence[Path]:
    return [path] if path.is_file() else list(path.rglob("*.py"))


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise GlimpseError(f"benchmarks record the commit they run on, but git cannot be run: {error}") from error
    if done.returncode:
        reason = done.stderr.strip()
        raise GlimpseError(f"benchmarks record the commit they run on; {root} is no git checkout: {reason}")
    return done.stdout


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "source"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
