"""The checkpoint of a cell: as it is, or grown to a larger one's cost; past its context with a raised rotary base."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from glimpse.bench.decode.shape import LEAST_CONTEXT, CellShape
from glimpse.bench.grow import cost_label, grow, shape_named, twin_fingerprint
from glimpse.bench.grow_adapter import grown_adapter_file
from glimpse.bench.grow_plan import twin_spec
from glimpse.bench.grow_source import OpenedSource, open_source
from glimpse.engine.loaded import demand_of
from glimpse.model import resolve_model
from glimpse.model.build import build_decoder
from glimpse.model.checkpoint import Checkpoint
from glimpse.model.rope import RopeSpec
from glimpse.model.spec import DecoderSpec

_RAISE = 10.0
"""The rotary base is raised at least by so much."""


def stretched(spec: DecoderSpec, length: int) -> DecoderSpec:
    """The spec for `length` positions: the same where they fit, else with a raised rotary base.

    The factor is (length / context)^(d / (d - 2)), which keeps the slowest pair within the angles it was trained on
    ("NTK-aware" scaling), and at least 10.
    """
    if length <= spec.context_length:
        return spec
    factor = max(_RAISE, (length / spec.context_length) ** (spec.head_dim / (spec.head_dim - 2)))
    rope = RopeSpec(spec.rope.theta * factor, spec.head_dim, spec.rope.scaling)
    return replace(spec, rope=rope, context_length=length)


@dataclass
class Models:
    """Opens the checkpoints that cells name; keeps one at a time."""

    dtype: torch.dtype
    device: torch.device
    _opened: dict[str, OpenedSource] = field(default_factory=dict)
    _held: dict[tuple[str, int], Checkpoint] = field(default_factory=dict)
    _grown: dict[tuple[str, str], Path] = field(default_factory=dict)
    """Adapters by model and the file that they were grown from, in `_folder`."""
    _folder: TemporaryDirectory[str] | None = None

    def open(self, cell: CellShape, length: int) -> Checkpoint:
        """The checkpoint of a cell whose rows grow to `length` tokens; its name says what was done to it.

        Raises GlimpseError, before anything is allocated, for weights that do not fit the memory.
        """
        opened = self._source(cell.source)
        key = (cell.model, stretched(opened.spec, length).context_length)
        if key not in self._held:
            self._held.clear()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            self._held[key] = self._load(cell, opened, length)
        return self._held[key]

    def adapter(self, cell: CellShape, file: str) -> str:
        """The file of a block adapter for a cell's checkpoint: `file` itself, or what it grows into for a twin of the
        checkpoint that it was made for. That lies in a temporary folder, as long as these models are used.

        Raises what `grown_adapter_file` raises.
        """
        if not cell.twin:
            return file
        key = (cell.model, file)
        if key not in self._grown:
            self._folder = self._folder or TemporaryDirectory(prefix="glimpse-adapters-")
            out = Path(self._folder.name) / f"{len(self._grown)}.safetensors"
            self._grown[key] = grown_adapter_file(
                Path(file), self._source(cell.source), cell.twin, out, device=self.device
            )
        return str(self._grown[key])

    def _source(self, name: str) -> OpenedSource:
        if name not in self._opened:
            self._opened[name] = open_source(resolve_model(name))
        return self._opened[name]

    @torch.inference_mode()
    def _load(self, cell: CellShape, opened: OpenedSource, length: int) -> Checkpoint:
        spec, name = stretched(opened.spec, length), opened.name
        if spec is not opened.spec:
            name += f", rotary base raised from {opened.spec.rope.theta:g} to {spec.rope.theta:g}"
        own = opened.fingerprint()
        self._refuse_weights(twin_spec(spec, shape_named(cell.twin)) if cell.twin else spec)
        if cell.twin:
            decoder = grow(spec, opened.weights, cell.twin, dtype=self.dtype, device=self.device)
            name += f", {cost_label(opened.spec, decoder.spec)}"
            own = twin_fingerprint(own, decoder.spec)
        else:
            decoder = build_decoder(spec, opened.weights, dtype=self.dtype, device=self.device)
        return Checkpoint(name, decoder, opened.tokenizer, opened.generation_defaults, own)

    def _refuse_weights(self, spec: DecoderSpec) -> None:
        """Raises GlimpseError where the weights and a little context do not fit; a cell's cache is its own concern."""
        demand_of(spec, self.dtype, self.device, min(LEAST_CONTEXT, spec.context_length), 1, loaded=False).check()
