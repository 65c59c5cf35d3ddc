"""Measured step costs kept on disk, one file per device, model and dtype, as JSON that people can read.

Written by `glimpse calibrate`; an engine that finds the file of its own device, model and dtype starts from it. A file
that is broken, of another version or of another shape is ignored with one warning: costs are learned anyway.
"""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from glimpse.errors import GlimpseError
from glimpse.model.demo import cache_folder
from glimpse.model.spec import DecoderSpec
from glimpse.pacing.costs import FEATURES

VERSION = 3
_UNNAMED = 2
"""In files of this version `rounds` stood for `riding` too."""
UNEVEN = 0.15
"""A spread beyond this comes of other work on the machine, and the fit may be as far off."""
_MOST_SECONDS = 3600.0
"""No unit of any load takes an hour; sums of costs beyond it need not be finite."""
_LEAST_SECONDS = 1e-15
"""A plain step that costs less than this for each of its loads was not measured; other steps are priced in it."""
_LEAST_RATE, _MOST_RATE = 1e6, 1e18
"""Bytes and operations a second: far from what any device does, and far from where sums of them overflow."""
_SIZES = ("layers", "hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim", "vocab_size", "tied")
_DTYPES = ("float32", "bfloat16", "float16")
_LOG = logging.getLogger("glimpse")


class CalibrationError(GlimpseError):
    """A file is no calibration that can be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Point:
    """One kind of step: its load by `FEATURES[1:]`, the median of what it took, and what the fit says."""

    load: tuple[float, ...]
    seconds: float
    predicted: float

    @property
    def error(self) -> float:
        """Relative error of the fit."""
        return self.predicted / self.seconds - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What was measured. `bandwidth` in bytes and `rate` in operations per second, `memory` in bytes."""

    device: str
    model: str
    dtype: str
    shape: Mapping[str, int]
    """The sizes of the model that costs depend on."""
    coefficients: tuple[float, ...]
    """Seconds per unit of each of `FEATURES`."""
    points: tuple[Point, ...]
    bandwidth: float
    rate: float
    memory: int
    measured: str
    """When, as ISO 8601."""
    torch: str
    spread: float | None = None
    """By how much the repeats of a kind of step take longer than the fastest of them: the median of each kind's, and of
    all kinds. None: written before this was kept."""

    @property
    def uneven(self) -> bool:
        """Whether the machine was too busy to measure anything."""
        return self.spread is not None and self.spread > UNEVEN

    def as_json(self) -> dict[str, Any]:
        """The object that is written."""
        value = {"glimpse_calibration": VERSION} | asdict(self)
        del value["points"], value["coefficients"]
        value["seconds_per"] = dict(zip(FEATURES, self.coefficients, strict=True))
        value["points"] = [
            dict(zip(FEATURES[1:], point.load, strict=True))
            | {"seconds": point.seconds, "predicted": point.predicted, "error": round(point.error, 4)}
            for point in self.points
        ]
        return value


def shape_of(spec: DecoderSpec) -> dict[str, int]:
    """The sizes that the cost of a step depends on."""
    return {name: int(getattr(spec, name)) for name in _SIZES}


def device_name(device: torch.device) -> str:
    """The GPU's name; for a CPU its model and the threads in use, which its speed depends on."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"


def is_processor(name: str) -> bool:
    """Whether a name of `device_name` is a CPU's."""
    return re.search(r", \d+ threads?$", name) is not None


def path_of(device: str, model: str, dtype: str) -> Path:
    """Where the calibration of a device, model and dtype lies or would lie."""
    words = (re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:80] for text in (device, model, dtype))
    return cache_folder() / "calibration" / f"{'--'.join(words)}.json"


def write(calibration: Calibration) -> Path:
    """Put a calibration in its place in one step; returns the path. GlimpseError if that cannot be written."""
    path = path_of(calibration.device, calibration.model, calibration.dtype)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(calibration.as_json(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise GlimpseError(f"cannot write the calibration to {path}: {error.strerror or error}") from error
    return path


def refuse_worse(found: Calibration) -> None:
    """Raises GlimpseError where an uneven calibration would take the place of one that is less so."""
    path = path_of(found.device, found.model, found.dtype)
    try:
        kept = read(path)
    except CalibrationError:
        return
    if found.spread is not None and found.uneven and kept.shape == found.shape and (kept.spread or 0) < found.spread:
        own = "was not noted" if kept.spread is None else f"is {kept.spread:.0%}"
        raise GlimpseError(
            f"not kept: repeats of a step take {found.spread:.0%} longer than the fastest of them, so the machine is "
            f"busy, and the calibration of {kept.measured}, whose spread {own}, stays; run glimpse calibrate again "
            "when nothing else runs, or with --fresh to take this one"
        )


def refuse_unwritable() -> None:
    """Raises GlimpseError where no calibration could be written, before it is measured."""
    folder = path_of("", "", "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise GlimpseError(f"cannot write calibrations into {folder}: {error.strerror or error}") from error


def read(path: Path) -> Calibration:
    """The calibration in a file. Raises CalibrationError saying what is wrong with it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CalibrationError(f"not readable as JSON ({' '.join(str(error).split())})") from error
    if not isinstance(value, dict) or "glimpse_calibration" not in value:
        raise CalibrationError("not written by glimpse calibrate")
    if value["glimpse_calibration"] == _UNNAMED:
        value = _with_riding(value)
    elif value["glimpse_calibration"] != VERSION:
        raise CalibrationError(f"version {value['glimpse_calibration']!r}, not {VERSION}; run glimpse calibrate again")
    try:
        return _parsed(value)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CalibrationError(f"a value is missing or broken ({type(error).__name__}: {error})") from error


def _with_riding(value: dict[str, Any]) -> dict[str, Any]:
    """A file of the version before, as this one has it: nothing of it rode, and what a round costs was taken for it."""
    try:
        prices = value["seconds_per"] | {"riding": value["seconds_per"]["rounds"]}
        return value | {"seconds_per": prices, "points": [{"riding": 0} | point for point in value["points"]]}
    except (KeyError, TypeError) as error:
        raise CalibrationError(f"a value is missing or broken ({type(error).__name__}: {error})") from error


def find(model: str, spec: DecoderSpec, dtype: torch.dtype, device: torch.device) -> Calibration | None:
    """The calibration of this device, model and dtype if there is one; one warning if it cannot be used."""
    path = path_of(device_name(device), model, _name(dtype))
    if not path.is_file():
        return None
    try:
        found = read(path)
        if found.shape != shape_of(spec) or found.dtype != _name(dtype):
            raise CalibrationError("of a model of another shape")
    except CalibrationError as error:
        _LOG.warning("glimpse: ignoring the calibration %s: %s", path, error)
        return None
    return found


def _parsed(value: dict[str, Any]) -> Calibration:
    coefficients = tuple(_positive(value["seconds_per"][name], zero=True) for name in FEATURES)
    priced = dict(zip(FEATURES, coefficients, strict=True))
    if priced["step"] + priced["full_tokens"] + priced["full_kv"] < _LEAST_SECONDS:
        raise ValueError("a plain step costs nothing")
    if max(coefficients) > _MOST_SECONDS:
        raise ValueError(f"a cost of {max(coefficients):.3g} s is none that was measured")
    if value["dtype"] not in _DTYPES:
        raise ValueError(f"dtype {value['dtype']!r} is none of {', '.join(_DTYPES)}")
    return Calibration(
        device=str(value["device"]),
        model=str(value["model"]),
        dtype=str(value["dtype"]),
        shape={name: int(value["shape"][name]) for name in _SIZES},
        coefficients=coefficients,
        points=tuple(_point(point) for point in value["points"]),
        bandwidth=_rate("bandwidth", value["bandwidth"]),
        rate=_rate("rate", value["rate"]),
        memory=int(_positive(value["memory"])),
        measured=str(value["measured"]),
        torch=str(value["torch"]),
        spread=None if value.get("spread") is None else _positive(value["spread"], zero=True),
    )


def _point(value: dict[str, float]) -> Point:
    load = tuple(_positive(value[name], zero=True) for name in FEATURES[1:])
    return Point(load, _positive(value["seconds"]), _positive(value["predicted"], zero=True))


def _rate(name: str, value: Any) -> float:
    number = _positive(value)
    if not _LEAST_RATE <= number <= _MOST_RATE:
        raise ValueError(f"a {name} of {number:.3g} a second is none that was measured")
    return number


def _positive(value: Any, *, zero: bool = False) -> float:
    number = float(value)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{value!r} is not a positive number")
    return number


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names and names[0] else platform.processor() or platform.machine()
