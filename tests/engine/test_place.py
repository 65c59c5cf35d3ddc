"""Which device is chosen, on made-up machines."""

import warnings
from types import SimpleNamespace

import pytest
import torch

from glimpse.engine import place as places
from glimpse.engine.place import DeviceWarning, place
from glimpse.errors import ArgumentError
from glimpse.llm import LLM


@pytest.fixture
def machine(monkeypatch):
    """machine(gpus=..., ...): what torch says there is; products on the GPU come out right."""

    def make(gpus=1, capability=(9, 0), built="13.0", init=None, triton=True, product=None):
        def start() -> None:
            if init:
                warnings.warn("torch says it too", stacklevel=1)
                raise init

        monkeypatch.setattr(torch.version, "cuda", built)
        monkeypatch.setattr(torch.cuda, "init", start)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA X")
        monkeypatch.setattr(places, "find_spec", lambda _: SimpleNamespace() if triton else None)
        monkeypatch.setattr(places, "_trial", lambda _: product)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(places, "_DRIVER_FILES", (__file__,) if gpus or init or not built else ())

    return make


@pytest.mark.parametrize(("asked", "index"), [("auto", 0), ("cuda", 0), ("cuda:1", 1)])
def test_a_gpu_that_can_be_used_is(machine, asked, index):
    machine(gpus=2)
    found = place(asked)
    assert (found.device, found.warn) == (torch.device("cuda", index), False)


def test_cpu_is_never_looked_into(machine):
    machine(init=RuntimeError("must not be called"))
    assert place("cpu").device.type == "cpu"


OLD = RuntimeError("The NVIDIA driver on your system is too old (found version 11040). Please update it\nat https://x")
TROUBLES = [
    ({"capability": (7, 5)}, "NVIDIA X has compute capability 7.5, and 8.0 is the least"),
    ({"triton": False}, "Triton, which its kernels are written in, is not installed"),
    ({"gpus": 0, "init": OLD}, "The NVIDIA driver on your system is too old (found version 11040)"),
    ({"gpus": 0, "built": None}, f"PyTorch {torch.__version__} is built without CUDA"),
    ({"product": "a product of ones came out as 3 instead of 64"}, "a product of ones came out as 3 instead of 64"),
]


@pytest.mark.parametrize(("there", "trouble"), TROUBLES)
def test_a_gpu_that_cannot_be_used_is_told_once(machine, there, trouble):
    machine(**there)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = place("auto")
    assert (found.device.type, found.warn) == ("cpu", True)
    assert found.reason == f"the GPU cannot be used: {trouble}"
    with pytest.raises(ArgumentError) as caught:
        place("cuda")
    assert str(caught.value) == f"device 'cuda' cannot be used: {trouble}; use auto or cpu"


def test_without_a_gpu_auto_says_nothing(machine):
    machine(gpus=0)
    assert (place("auto").device.type, place("auto").warn) == ("cpu", False)
    with pytest.raises(ArgumentError, match="'cuda:0' cannot be used: there is no NVIDIA GPU here"):
        place("cuda:0")


def test_a_hidden_gpu_is_none(machine, monkeypatch):
    machine(gpus=0, init=RuntimeError("No CUDA GPUs are available"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not place("auto").warn


@pytest.mark.parametrize(("gpus", "said"), [(1, "the only one is cuda:0"), (2, "there are cuda:0 to cuda:1")])
def test_a_gpu_that_is_not_there(machine, gpus, said):
    machine(gpus=gpus)
    with pytest.raises(ArgumentError, match=said):
        place("cuda:7")


def test_an_llm_warns_once_and_runs_on_the_cpu(machine, tiny_folder, monkeypatch):
    monkeypatch.setattr("glimpse.llm.place", place)
    machine(capability=(7, 0))
    with pytest.warns(DeviceWarning, match=r"running on the CPU: .* capability 7.0") as caught:
        llm = LLM(tiny_folder, max_batch_size=1)
    assert len(caught) == 1
    assert (llm.settings["device"], llm.settings["dtype"]) == ("cpu", "float32")


def test_dtypes(machine, monkeypatch):
    """auto: bfloat16 on a GPU, float32 on a CPU; what is asked for otherwise."""
    from glimpse.engine.machine import MachineOptions

    def dtype(asked: str, device: str) -> torch.dtype:
        options = MachineOptions(
            dtype=asked, device="auto", max_context=None, max_batch_size=1, threads=None, seed=None
        )
        return options.dtype_on(torch.device(device))

    assert (dtype("auto", "cuda:1"), dtype("auto", "cpu")) == (torch.bfloat16, torch.float32)
    assert (dtype("float16", "cuda"), dtype("bfloat16", "cpu")) == (torch.float16, torch.bfloat16)
