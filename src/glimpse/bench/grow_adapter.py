"""A block adapter grown along with its target: on the twin it says what it says on the source.

So the accepted length of `block` on a twin is that of the small model, and the cost that of the large one. Everything
goes where `GrownWeights` puts the weights that it changes: with R the twin's rotation and w the norm before a linear,

* what reads the residual stream (`qkv_down`) becomes W diag(w) R^T, what writes to it (`output_up`) R W, and zero in
  a layer that only stands in; the other halves are spread over the twin's heads as the projections' rows are;
* the masks' embedding becomes R x, q/k norms are placed as the source's;
* the calibrator reads R e of the embedding and R x of a normalised hidden state that the source has times its final
  norm f, so it reads with diag(f); what it adds has to pass the head's diag(f), which is folded in, so it is over f.

The rank stays the source's. Equal but for rounding (`tests/bench/test_grow_adapter.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from glimpse.bench.grow import shape_named, twin_fingerprint
from glimpse.bench.grow_plan import GrownShape
from glimpse.bench.grow_source import OpenedSource
from glimpse.bench.grow_weights import GrownWeights
from glimpse.drafting.block.adapter import Adapter, read_adapter, write_adapter
from glimpse.errors import ModelError
from glimpse.model.build import FINAL_NORM


def grow_adapter(adapter: Adapter, twin: GrownWeights, fingerprint: str, label: str) -> Adapter:
    """An adapter of `twin.source` for the twin, in float32; `fingerprint` and `label` are the twin's.

    Raises ModelError where the calibrator cannot be grown: the final norm has a zero.
    """
    first = twin.plan.real_layers[adapter.config.first]
    config = replace(adapter.config, target=label, fingerprint=fingerprint, first=first)
    return Adapter(config, _Growth(adapter.tensors, twin).all(first))


def grown_adapter_file(
    path: Path, opened: OpenedSource, shape: GrownShape | str, out: Path, *, device: torch.device | str = "cpu"
) -> Path:
    """Writes the adapter at `path`, made for `opened`, to `out` for the twin that `grow` makes of it with seed 0.

    Raises what `read_adapter` raises for the source, and what `grow_adapter` raises.
    """
    asked = shape_named(shape) if isinstance(shape, str) else shape
    own = opened.fingerprint()
    twin = GrownWeights(opened.spec, opened.weights, asked, device=device)
    adapter = read_adapter(path, opened.spec, own)
    grown = grow_adapter(adapter, twin, twin_fingerprint(own, twin.spec), f"{adapter.config.target}, grown")
    write_adapter(out, grown.config, grown.tensors, torch.float32)
    return out


def adapter_label(file: str | Path) -> str:
    """Name and digest of an adapter's file: one that was trained on is another."""
    path = Path(file)
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class _Growth:
    tensors: Mapping[str, Tensor]
    twin: GrownWeights

    def all(self, first: int) -> dict[str, Tensor]:
        """Every tensor of the twin's adapter, whose first tuned layer is `first`."""
        grown = {"mask": self._out(self._own("mask")), **self._calibrator()}
        for layer in range(first, self.twin.spec.layers):
            grown |= {f"layers.{layer}.{name}": tensor for name, tensor in self._layer(layer).items()}
        return grown

    def _own(self, name: str) -> Tensor:
        return self.tensors[name].to(self.twin.rotation.device, torch.float32)

    def _out(self, columns: Tensor) -> Tensor:
        """[d, *] of the source's residual stream to [D, *] of the twin's."""
        return self.twin.rotation @ columns

    def _in(self, rows: Tensor) -> Tensor:
        """[*, d] that read the source's stream to [*, D] that read the twin's."""
        return rows @ self.twin.rotation.t()

    def _layer(self, layer: int) -> dict[str, Tensor]:
        source, real = self.twin.plan.layers[layer]
        spec, prefix = self.twin.source, f"layers.{source}."
        norm = self.twin.read(f"model.layers.{source}.input_layernorm.weight")
        rows = torch.split(self._own(f"{prefix}qkv_up"), [spec.heads * spec.head_dim, *[self._keys] * 2])
        parts = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        up = self._out(self._own(f"{prefix}output_up"))
        own = {
            "qkv_down": self._in(self._own(f"{prefix}qkv_down") * norm),
            "qkv_up": torch.cat([self.twin.spread(own, part) for own, part in zip(rows, parts, strict=True)]),
            "output_down": self.twin.spread(self._own(f"{prefix}output_down").t(), "self_attn.o_proj").t(),
            "output_up": up if real else torch.zeros_like(up),
        }
        return own | ({"qk_norm": self._qk_norm(f"{prefix}qk_norm")} if spec.qk_norm else {})

    @property
    def _keys(self) -> int:
        return self.twin.source.kv_heads * self.twin.source.head_dim

    def _qk_norm(self, name: str) -> Tensor:
        """Each head's own norm, at the places of its copies."""
        heads, plan = self._own(name), self.twin.plan
        count = self.twin.source.heads
        copies = [*plan.heads.source, *(count + head for head in plan.kv_heads)]
        grown = self.twin.placed(heads[torch.tensor(copies, device=heads.device)])
        grown[len(plan.heads.source) :] *= self.twin.key_norm_scale
        return grown

    def _calibrator(self) -> dict[str, Tensor]:
        final = self.twin.read(FINAL_NORM)
        bonus, hidden = self._own("calibrator.in").chunk(2, 1)
        if self.tensors["calibrator.out"].numel() and not final.all():
            raise ModelError("the final norm has a zero, behind which a calibrator cannot be grown: train one without")
        return {
            "calibrator.in": torch.cat([self._in(bonus), self._in(hidden * final)], 1),
            "calibrator.bias": self._own("calibrator.bias"),
            "calibrator.out": self._out(self._own("calibrator.out") / final[:, None]),
        }
