"""The file that `glimpse train block` makes: what is trained, in safetensors, with the target it belongs to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from glimpse.errors import ArgumentError, ModelError
from glimpse.model.spec import DecoderSpec

FORMAT = "glimpse-block-1"
NEEDED = "needs an adapter: give the file that glimpse train block made"
"""What is said of a drafter that was given none."""
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
"""What tensors may be stored as."""
_ENTRY = "glimpse"
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class BlockConfig:
    """Shape of an adapter, and what it was made for."""

    target: str
    """The target's name, for messages."""
    fingerprint: str
    """The target's `Checkpoint.fingerprint`."""
    size: int
    """Mask tokens of a group, and so tokens of a block."""
    first: int
    """The layer, from 0, at which mask tokens enter."""
    rank: int
    """Inner width of the changes to the projections."""
    inner: int
    """Inner width of the calibrator; 0: none."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """How it was trained, as told."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """A checked adapter in memory."""

    config: BlockConfig
    tensors: Mapping[str, Tensor]
    """By the names of `shapes_of`."""


def shapes_of(spec: DecoderSpec, config: BlockConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of an adapter's tensors for a target of this shape."""
    hidden, width, rank = spec.hidden_size, spec.heads * spec.head_dim, config.rank
    shapes: dict[str, tuple[int, ...]] = {
        "mask": (hidden,),
        "calibrator.in": (config.inner, 2 * hidden),
        "calibrator.bias": (config.inner,),
        "calibrator.out": (hidden, config.inner),
    }
    for layer in range(config.first, spec.layers):
        own = {"qkv_down": (rank, hidden), "qkv_up": (spec.qkv_rows, rank),
               "output_down": (rank, width), "output_up": (hidden, rank)}  # fmt: skip
        if spec.qk_norm:
            own["qk_norm"] = (spec.heads + spec.kv_heads, spec.head_dim)
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in own.items()}
    return shapes


def write_adapter(
    path: Path, config: BlockConfig, tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.bfloat16
) -> None:
    """Writes the tensors as `dtype`, whole or not at all. Raises ArgumentError where it cannot be written."""
    stored = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in tensors.items()}
    save_whole(path, stored, {"format": FORMAT, "config": asdict(config)})


def save_whole(path: Path, tensors: dict[str, Tensor], facts: Mapping[str, Any]) -> None:
    """A safetensors file in one step, so that an interrupted run leaves the former one. Raises ArgumentError.

    All facts are one entry of its metadata: of several it does not keep the order, and files would differ by chance.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, part, {_ENTRY: json.dumps(facts, sort_keys=True)})
        part.chmod(0o644)
        part.replace(path)
    except (OSError, SafetensorError) as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise ArgumentError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


def read_adapter(path: Path, spec: DecoderSpec, fingerprint: str) -> Adapter:
    """The adapter for the target with this shape and fingerprint.

    Raises ArgumentError where there is no such file, ModelError naming what is wrong in it: not an adapter, cut short,
    made for another target, tensors missing, of another shape or not finite.
    """
    facts, tensors = load_whole(path, "adapter")
    config = _config(path, facts)
    if config.fingerprint != fingerprint:
        raise ModelError(
            f"{path}: made for {config.target} ({config.fingerprint}), and this model is another "
            f"({fingerprint or 'one without a fingerprint'}); train an adapter for it with glimpse train block"
        )
    _check_tensors(path, spec, config, tensors)
    return Adapter(config, tensors)


def config_of(path: Path) -> BlockConfig:
    """The config of an adapter, whose tensors are not read. Raises as `read_adapter`."""
    return _config(path, _opened(path, "adapter", lambda file: None)[0])


def check_there(path: Path, what: str = "adapter") -> None:
    """Raises ArgumentError where there is no such file."""
    try:
        there = path.is_file()
    except OSError as error:
        raise ArgumentError(f"no such {what}: {error.strerror}: {str(path)[:80]}") from error
    if not there:
        raise ArgumentError(f"no such {what}: {path}")


def load_whole(path: Path, what: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Facts ({} where they are not ours) and tensors of a safetensors file.

    Raises ArgumentError without one, ModelError for a broken one.
    """
    return _opened(path, what, lambda file: {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118


def _opened(path: Path, what: str, read: Callable[[Any], _Read]) -> tuple[dict[str, Any], _Read]:
    """Facts, and what `read` makes of the open file."""
    check_there(path, what)
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {}).get(_ENTRY, "{}"))
            return facts if isinstance(facts, dict) else {}, read(file)
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not a whole safetensors file: {' '.join(str(error).split())}") from error


def _config(path: Path, facts: Mapping[str, Any]) -> BlockConfig:
    if facts.get("format") != FORMAT:
        raise ModelError(f"{path}: not a block adapter (format {facts.get('format')!r}, not {FORMAT!r})")
    try:
        config = BlockConfig(**facts["config"])
    except (KeyError, TypeError) as error:
        raise ModelError(f"{path}: its config cannot be read: {error}") from error
    kinds = {"target": str, "fingerprint": str, "recipe": dict}
    for one in fields(BlockConfig):
        value, kind = getattr(config, one.name), kinds.get(one.name, int)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ModelError(f"{path}: its config has {one.name} {value!r}, which is no {kind.__name__}")
    return config


def _check_tensors(path: Path, spec: DecoderSpec, config: BlockConfig, tensors: Mapping[str, Tensor]) -> None:
    if not (1 <= config.size <= 64 and 0 <= config.first < spec.layers and config.rank >= 1 and config.inner >= 0):
        raise ModelError(
            f"{path}: its config asks for blocks of {config.size} from layer {config.first} of {spec.layers}, rank "
            f"{config.rank}, inner width {config.inner}"
        )
    shapes = shapes_of(spec, config)
    for name in sorted(shapes.keys() ^ tensors.keys()):
        raise ModelError(f"{path}: tensor {name!r} is {'missing' if name in shapes else 'not one of an adapter'}")
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise ModelError(f"{path}: tensor {name!r} has shape {list(tensors[name].shape)}, not {list(shape)}")
        if tensors[name].dtype not in DTYPES:
            raise ModelError(f"{path}: tensor {name!r} is {str(tensors[name].dtype).removeprefix('torch.')}, no float")
        if not torch.isfinite(tensors[name]).all():
            raise ModelError(f"{path}: tensor {name!r} has values that are not finite")
