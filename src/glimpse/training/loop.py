"""Trains an adapter for a target, and can be interrupted."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from glimpse.drafting.block.adapter import BlockConfig, shapes_of, write_adapter
from glimpse.errors import ArgumentError, GlimpseError
from glimpse.model import Checkpoint
from glimpse.training.frozen import read, trainable
from glimpse.training.journal import PointLog
from glimpse.training.masks import Judged, branch_points, fresh_tensors, judge
from glimpse.training.recipe import Recipe
from glimpse.training.state import State
from glimpse.training.texts import Corpus

HELD = 16
"""Sequences held out that are looked at, at most, spread over all texts."""
LARGEST = 1.0
"""Gradients are shortened to this norm."""


@dataclass(frozen=True, slots=True)
class Point:
    """How far training has come."""

    step: int
    loss: float
    """Mean weighted loss of a group over the steps since the last point; of the first step alone at the first."""
    held_loss: float
    accepted: float
    """Of held-out text: how many leading drafts are the text's own tokens, in the mean of all groups."""
    accepted_by_place: tuple[float, ...]
    """The share of groups that are right up to each place."""
    accepted_by_text: Mapping[str, float]
    """The same mean for each file that held-out text is of: books, code and answers differ widely."""
    seconds: float
    """Since this run began."""


Hear = Callable[[Point], None]


class Trainer:
    """Trains one adapter at `out`; what it goes on from lies beside it, `out`.state, and the points in `out`.log."""

    def __init__(self, checkpoint: Checkpoint, corpus: Corpus, recipe: Recipe, out: Path) -> None:
        """Goes on where an interrupted training with the same recipe stopped.

        Raises ArgumentError for sequences longer than the model's context, and what `State.load` and `PointLog` raise.
        """
        spec = checkpoint.spec
        if recipe.length > spec.context_length:
            raise ArgumentError(
                f"length {recipe.length} is more than the model's context of {spec.context_length} tokens"
            )
        out.parent.mkdir(parents=True, exist_ok=True)
        first = recipe.first_of(spec.layers)
        self.config = BlockConfig(
            target=checkpoint.name,
            fingerprint=checkpoint.fingerprint,
            size=recipe.size,
            first=first,
            rank=recipe.rank,
            inner=recipe.inner,
            recipe=recipe.as_json() | {"text": corpus.digest},
        )
        self.recipe, self.out = recipe, out
        self._corpus, self._target = corpus, checkpoint.decoder
        self._decoder = trainable(checkpoint.decoder, first)
        decays = torch.arange(recipe.size, device=self._decoder.device)
        self._weights = torch.exp(-decays / recipe.decay)
        self._weights /= self._weights.sum()
        if self._state_file.exists():
            shapes = shapes_of(spec, self.config)
            self.state = State.load(self._state_file, self.config, shapes, self._decoder.device)
        else:
            stream = read(self._target, corpus.train[:1], first).stream
            self.state = State.fresh(fresh_tensors(self._decoder, self.config, stream, recipe.seed))
        self._log = PointLog(out.with_name(f"{out.name}.log"), self.state.steps)

    @property
    def _state_file(self) -> Path:
        return self.out.with_name(f"{self.out.name}.state")

    def run(self, hear: Hear, *, every: int, seconds: float | None = None) -> bool:
        """Trains to the recipe's last step, or for `seconds`; whether it is done.

        Every `every` steps, and at the end, the adapter and its state are written and `hear` is told. Raises
        GlimpseError where the loss is no number any more.
        """
        started, losses = time.perf_counter(), list[float]()
        if self.state.steps and not self.out.exists():
            write_adapter(self.out, self.config, self.state.tensors)
        while self.state.steps < self.recipe.steps:
            losses.append(self._step())
            over = seconds is not None and time.perf_counter() - started > seconds
            if over or self.state.steps % every == 0 or self.state.steps == self.recipe.steps:
                self._save(hear, sum(losses) / len(losses), time.perf_counter() - started)
                losses = []
            if over:
                break
        return self.state.steps >= self.recipe.steps

    def reliability(self, bins: int = 10) -> list[tuple[float, float, int]]:
        """What confidences are worth on held-out text: for each tenth of their range that has any, the mean confidence,
        the share of its tokens that are the text's, and how many they are."""
        judged = _together(self._held_out().values())
        said, right = judged.confidence.flatten().cpu(), judged.right.flatten().float().cpu()
        place = (said * bins).long().clamp_max(bins - 1)
        found = [(said[place == one], right[place == one]) for one in range(bins)]
        return [(float(a.mean()), float(b.mean()), len(a)) for a, b in found if len(a)]

    def _held_out(self) -> dict[str, Judged]:
        """The groups of some held-out sequences by their files, at places that are always the same."""
        generator, found = torch.Generator().manual_seed(self.recipe.seed), defaultdict[str, list[Judged]](list)
        with torch.no_grad():
            for name, tokens in self._corpus.looked_at(HELD):
                found[name].append(self._judge(tokens, branch_points(1, self.recipe, generator)))
        return {name: _together(own) for name, own in found.items()}

    def _step(self) -> float:
        step, recipe = self.state.steps, self.recipe
        generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step)
        chosen = torch.randint(len(self._corpus.train), (recipe.sequences,), generator=generator)
        branches = branch_points(len(chosen), recipe, generator)
        loss = (self._judge(self._corpus.train[chosen], branches).loss * self._weights).sum(-1).mean()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise GlimpseError(f"step {step}: the loss is {value}; try a lower rate than {recipe.rate}")
        for group in self.state.optimiser.param_groups:
            group["lr"] = recipe.rate_at(step)
        self.state.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(list(self.state.tensors.values()), LARGEST)
        self.state.optimiser.step()
        self.state.steps += 1
        return value

    def _judge(self, tokens: Tensor, branches: Tensor) -> Judged:
        reading = read(self._target, tokens, self.config.first)
        return judge(self._decoder, self.config, self.state.tensors, reading, tokens, branches, self.recipe.distil)

    def _save(self, hear: Hear, loss: float, seconds: float) -> None:
        """The state last: killed before, the next run comes here again."""
        write_adapter(self.out, self.config, self.state.tensors)
        found = self._held_out()
        judged = _together(found.values())
        held_loss, by_place = float((judged.loss * self._weights).sum(-1).mean()), _runs(judged)
        places = tuple(round(float(share), 4) for share in by_place)
        by_text = {name: round(float(_runs(own).sum()), 4) for name, own in found.items()}
        point = Point(self.state.steps, loss, held_loss, float(by_place.sum()), places, by_text, seconds)
        self._log.add(asdict(point))
        self.state.save(self._state_file, self.config)
        hear(point)


def _together(found: Iterable[Judged]) -> Judged:
    columns = zip(*((one.loss, one.right, one.confidence) for one in found), strict=True)
    return Judged(*(torch.cat(parts) for parts in columns))


def _runs(judged: Judged) -> Tensor:
    """[size]: the share of groups that are right up to each place."""
    return judged.right.long().cumprod(-1).flatten(0, 1).float().mean(0).cpu()
