"""What common devices can do: memory bandwidth, bf16 rate, memory. Each entry says where its figures come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from glimpse.errors import ArgumentError
from glimpse.pacing.calibration import Calibration, CalibrationError, is_processor, read
from glimpse.planning.overheads import Overheads

GB = 10**9
TERA = 10**12
REACHED_BANDWIDTH, REACHED_RATE = 0.9, 0.79
"""Shares of the data sheet's figures that a large copy and a large bf16 product reached on an H200.

4.3 of 4.8 TB/s and 780 of 989 TFLOP/s; taken for the other GPUs too.
"""
GPU_OVERHEADS = Overheads(
    layer=35.6e-6, few_layer=16.7e-6, arithmetic=0.57, gathering=0.48, learning=14.5, selecting=2.67,
    selecting_layer=4.76e-6, few_tokens=256,
)  # fmt: skip
"""Fitted by benchmarks/plan_check.py to steps measured on an H200 (benchmarks/results); taken for other GPUs too."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as planning sees it."""

    name: str
    bandwidth: float
    """Bytes per second that a step can hope for."""
    rate: float
    """Floating-point operations per second that a matrix product can hope for."""
    memory: int
    """Bytes; 0 if unknown."""
    source: str
    """Where the figures come from."""
    dtype: str = "bfloat16"
    """What `rate` is for, and what the engine uses there unless told otherwise."""
    overheads: Overheads = field(default_factory=Overheads)
    """What steps take beyond their floors; zero where that is not known."""
    measured: Calibration | None = None
    """What steps cost there, where that was measured: it is used for the model it was measured with."""
    gpu: bool = False


def _sheet(name: str, terabytes: float, teraflops: float, gigabytes: int, sheet: str) -> Device:
    return Device(
        name,
        terabytes * TERA * REACHED_BANDWIDTH,
        teraflops * TERA * REACHED_RATE,
        gigabytes * GB,
        f"{sheet}: {terabytes:g} TB/s, {teraflops:g} TFLOP/s dense; x {REACHED_BANDWIDTH} and x {REACHED_RATE}",
        overheads=GPU_OVERHEADS,
        gpu=True,
    )


def _processor(name: str, gigabytes: float, teraflops: float, reckoned: str) -> Device:
    # About three quarters of the channels' rate is what a copy gets on common processors.
    return Device(name, gigabytes * GB * 0.75, teraflops * TERA * 0.5, 0, f"{reckoned}; x 0.75 and x 0.5", "float32")


_DEVICES = (
    Device("h200", 4.3 * TERA, 780 * TERA, 141 * GB, "measured by this project; data sheet 4.8 TB/s, 989 TFLOP/s",
           overheads=GPU_OVERHEADS, gpu=True),
    _sheet("b200", 8.0, 2250, 180, "NVIDIA HGX B200 data sheet"),
    _sheet("h100", 3.35, 989, 80, "NVIDIA H100 SXM data sheet"),
    _sheet("h100-nvl", 3.9, 835, 94, "NVIDIA H100 NVL data sheet"),
    _sheet("h100-pcie", 2.0, 756, 80, "NVIDIA H100 PCIe data sheet"),
    _sheet("a100", 2.039, 312, 80, "NVIDIA A100 80GB SXM data sheet"),
    _sheet("a100-40gb", 1.555, 312, 40, "NVIDIA A100 40GB data sheet"),
    _sheet("l40s", 0.864, 362, 48, "NVIDIA L40S data sheet"),
    _sheet("l4", 0.3, 121, 24, "NVIDIA L4 data sheet"),
    _sheet("a40", 0.696, 149.7, 48, "NVIDIA A40 data sheet"),
    _sheet("a10", 0.6, 125, 24, "NVIDIA A10 data sheet"),
    _sheet("rtx-5090", 1.792, 209.5, 32, "NVIDIA RTX Blackwell white paper, FP32 accumulation"),
    _sheet("rtx-4090", 1.008, 165.2, 24, "NVIDIA Ada white paper, FP32 accumulation"),
    _sheet("rtx-3090", 0.936, 71, 24, "NVIDIA GA102 white paper, FP32 accumulation"),
    _processor("desktop-ddr5", 89.6, 1.15, "8 cores of 4.5 GHz with AVX2 (32 float32 operations a cycle and core), "
               "2 channels of DDR5-5600"),
    _processor("laptop-ddr4", 51.2, 0.45, "4 cores of 3.5 GHz with AVX2, 2 channels of DDR4-3200"),
    _processor("server-ddr5", 460.8, 6.1, "96 cores of 2.0 GHz, 32 float32 operations a cycle and core, 12 channels of "
               "DDR5-4800"),
    Device("cpu-2-cores", 17 * GB, 0.06 * TERA, 0, "measured by this project on a shared machine with 2 AVX2 cores",
           "float32"),
)  # fmt: skip
DEVICES = {device.name: device for device in _DEVICES}
"""Known devices by name."""


def find_device(name: str) -> Device:
    """A known device by name, or the device of a calibration file (`glimpse calibrate`).

    Raises ArgumentError listing the known names if it is neither, and for a file that is no calibration.
    """
    known = DEVICES.get(name.lower().replace("_", "-").replace(" ", "-"))
    if known is not None:
        return known
    try:
        path = Path(name).expanduser()
        if path.is_file():
            return _calibrated(path)
    except (OSError, RuntimeError):  # a name too long, a folder that may not be read, nobody's home
        pass
    raise ArgumentError(
        f"unknown device {name!r}; known: {', '.join(DEVICES)}; or the file that glimpse calibrate wrote"
    )


def _calibrated(path: Path) -> Device:
    try:
        found = read(path)
    except CalibrationError as error:
        raise ArgumentError(f"{path} is not a calibration that can be used: {error}") from error
    source = f"measured by glimpse calibrate ({path})"
    gpu = not is_processor(found.device)
    return Device(found.device, found.bandwidth, found.rate, found.memory, source, found.dtype, measured=found, gpu=gpu)
