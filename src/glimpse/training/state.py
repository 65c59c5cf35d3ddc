"""What an interrupted training goes on from, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glimpse.drafting.block.adapter import BlockConfig, load_whole, save_whole
from glimpse.errors import ArgumentError, ModelError

FORMAT = "glimpse-block-training-1"
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(slots=True)
class State:
    """Tensors by name, their optimiser, and how many steps were made."""

    tensors: dict[str, Tensor]
    optimiser: torch.optim.AdamW
    steps: int = 0

    @classmethod
    def fresh(cls, tensors: Mapping[str, Tensor]) -> State:
        """Before the first step."""
        # In one order, whoever made them: the norm of all gradients is a sum.
        own = {name: tensors[name].requires_grad_() for name in sorted(tensors)}
        return cls(own, torch.optim.AdamW(own.values(), betas=(0.9, 0.98), weight_decay=0.0, foreach=False))

    def save(self, path: Path, config: BlockConfig) -> None:
        """Writes it whole or not at all. Raises ArgumentError where it cannot be written."""
        stored = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        for name, tensor in self.tensors.items():
            for moment in _MOMENTS if self.steps else ():
                stored[f"{moment}.{name}"] = self.optimiser.state[tensor][moment].cpu().contiguous()
        save_whole(path, stored, {"format": FORMAT, "steps": self.steps, "config": _facts(config)})

    @classmethod
    def load(
        cls, path: Path, config: BlockConfig, shapes: Mapping[str, tuple[int, ...]], device: torch.device
    ) -> State:
        """Goes on from a file with tensors of these shapes. Raises ArgumentError where that was another training,
        ModelError where it is broken."""
        facts, stored = load_whole(path, "state")
        if facts.get("format") != FORMAT or facts.get("config") != _facts(config):
            raise ArgumentError(
                f"{path}: what it goes on from had another model, text or recipe{_difference(facts, config)}; ask for "
                "the same, or delete the file to begin anew"
            )
        _check(path, facts.get("steps"), stored, shapes)
        moved = {name: tensor.to(device) for name, tensor in stored.items()}
        state = cls.fresh({name: moved[name] for name in shapes})
        state.steps = facts["steps"]
        for name in shapes if state.steps else ():
            moments = {moment: moved[f"{moment}.{name}"] for moment in _MOMENTS}
            state.optimiser.state[state.tensors[name]] = {"step": torch.tensor(float(state.steps)), **moments}
        return state


def _check(path: Path, steps: object, stored: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ModelError for a state that is not one of a training with tensors of these shapes."""
    wanted = dict(shapes)
    for moment in _MOMENTS if steps else ():
        wanted |= {f"{moment}.{name}": shape for name, shape in shapes.items()}
    found = {name: tuple(tensor.shape) for name, tensor in stored.items() if tensor.dtype == torch.float32}
    if type(steps) is not int or steps < 0 or found != wanted:
        raise ModelError(f"{path}: its tensors or steps are not those of a training; delete it to begin anew")


def _facts(config: BlockConfig) -> dict[str, Any]:
    """What has to be the same; the target's name may change."""
    return {name: value for name, value in asdict(config).items() if name != "target"}


def _difference(facts: Mapping[str, Any], config: BlockConfig) -> str:
    """The first setting that differs, for people."""
    before, now = facts.get("config", {}), _facts(config)
    before, now = before | before.get("recipe", {}), now | now["recipe"]
    changed = [name for name in sorted(now) if name != "recipe" and before.get(name) != now[name]]
    return f" ({changed[0]} {before.get(changed[0])!r}, now {now[changed[0]]!r})" if changed else ""
