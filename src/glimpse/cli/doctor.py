"""`glimpse doctor`: what is here, and whether something needed is broken."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.text import Text

from glimpse.cli import jsonout, report
from glimpse.cli.demo_state import demo_state
from glimpse.cli.failures import DONE, FAILED
from glimpse.cli.options import OutputOptions


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. Only a finding that is not `ok` makes the command fail."""

    what: str
    said: str
    ok: bool = True


def doctor(output: OutputOptions) -> int:
    """Check Python, PyTorch, GPU, the cache folder and the demo model; exit 1 if something needed is broken."""
    with jsonout.kept_clean(output.json) as stdout:
        findings = [_safely(check) for check in CHECKS]
        healthy = all(finding.ok for finding in findings)
        if output.json:
            checks = {finding.what: {"ok": finding.ok, "said": finding.said} for finding in findings}
            jsonout.emit({"healthy": healthy, "checks": checks}, stdout)
        else:
            report.show(*_lines(findings))
    return DONE if healthy else FAILED


def _lines(findings: list[Finding]) -> Iterator[Text]:
    for finding in findings:
        mark = Text("ok    ", "green") if finding.ok else Text("BROKEN", "red")
        yield mark.append(f"  {finding.what:<13} {finding.said}", "default")


def _safely(check: Callable[[], Finding]) -> Finding:
    """A check that itself fails is a finding: the name of the check without its underscore, and what it ran into."""
    try:
        return check()
    except Exception as error:
        said = " ".join(str(error).split())
        return Finding(check.__name__.strip("_"), f"{type(error).__name__}: {said}", ok=False)


def _python() -> Finding:
    return Finding("python", f"{platform.python_version()} at {sys.executable}", ok=sys.version_info >= (3, 11))


def _torch() -> Finding:
    import torch

    return Finding("torch", f"{torch.__version__} (2.11 or newer is needed)", ok=_at_least(torch.__version__, (2, 11)))


def _transformers() -> Finding:
    import transformers

    said = f"{transformers.__version__} (5.17 or newer is needed)"
    return Finding("transformers", said, ok=_at_least(transformers.__version__, (5, 17)))


def _threads() -> Finding:
    import torch

    limits = [f"{name}={os.environ[name]}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ]
    return Finding("threads", ", ".join([f"{torch.get_num_threads()} of {os.cpu_count()} processors", *limits]))


def _packing() -> Finding:
    import torch

    packs = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    packs = packs and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    said = "weights are packed at load" if packs else "not in this build: verifying costs more (plain linears are used)"
    return Finding("oneDNN", said)


def _gpu() -> Finding:
    import torch

    from glimpse.engine.place import has_gpu

    if not has_gpu():
        return Finding("GPU", "none")
    cards = ", ".join(_card(index) for index in range(max(1, torch.cuda.device_count())))
    return Finding("GPU", f"{cards}; driver {_driver()}, PyTorch's CUDA {torch.version.cuda}")


def _card(index: int) -> str:
    """One GPU: its name, capability and memory; if it cannot be used, why."""
    import torch

    from glimpse.engine.place import trouble_of

    trouble = trouble_of(index)
    if trouble is not None:
        return f"cuda:{index} cannot be used: {trouble}"
    card = torch.cuda.get_device_properties(index)
    free, there = (count / 2**30 for count in torch.cuda.mem_get_info(index))
    return f"cuda:{index} {card.name}, capability {card.major}.{card.minor}, {free:.1f} of {there:.1f} GiB free"


def _driver() -> str:
    """The version of NVIDIA's driver, as its own tool tells it."""
    command = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return next(iter(done.stdout.splitlines()), "unknown").strip()


def _device() -> Finding:
    from glimpse.engine.place import place

    found = place("auto")
    return Finding("device", f"auto is {found.device}: {found.reason}")


def _server() -> Finding:
    from importlib.util import find_spec

    from glimpse.serve import missing

    absent = missing() + [name for name in ("xgrammar",) if find_spec(name) is None]
    if not absent:
        return Finding("server", "all that glimpse serve, --json-schema and --regex need is here")
    return Finding(
        "server", f"no {', '.join(absent)}: only glimpse serve, --json-schema and --regex need the extra serve"
    )


def _triton() -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Finding("triton", version("triton"))
    except PackageNotFoundError:
        return Finding("triton", "absent: only GPU kernels need it")


def _cache_folder() -> Finding:
    folder = demo_state().folder
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return Finding("cache folder", f"{folder} is writable")
    except OSError as error:
        return Finding("cache folder", f"{folder} cannot be written: {error.strerror}", ok=False)


def _demo_model() -> Finding:
    state = demo_state()
    return Finding("demo model", state.said, ok=state.ok)


def _at_least(version: str, wanted: tuple[int, int]) -> bool:
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= wanted


CHECKS: tuple[Callable[[], Finding], ...] = (
    _python, _torch, _transformers, _threads, _packing, _gpu, _triton, _device, _server, _cache_folder, _demo_model,
)  # fmt: skip
"""In the order they are printed."""
