"""Which part of the source each part of a grown twin copies, and whether it counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from glimpse.errors import ArgumentError
from glimpse.model.rope import RopeSpec
from glimpse.model.rope_scaling import RopeScaling, plain_frequencies
from glimpse.model.spec import DecoderSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownShape:
    """Sizes of a twin; each at least the source's. None keeps the source's."""

    layers: int | None = None
    hidden_size: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int | None = None
    vocab_size: int | None = None

    def sizes(self) -> dict[str, int]:
        """The sizes that are given."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


def twin_spec(source: DecoderSpec, shape: GrownShape) -> DecoderSpec:
    """The twin's spec: untied, eps times d / D, and a rotary base under which every source frequency is found again.

    Pair i of a head of h dimensions turns by theta^(-2i/h) a position. In a head of H dimensions pair i turns by
    theta'^(-2i/H), which is the same for theta' = theta^(H/h) (theta squared for 64 to 128). Further pairs are empty.
    Raises ArgumentError for a shape that the source cannot grow into.
    """
    sizes = shape.sizes()
    for name, value in sizes.items():
        if value < getattr(source, name):
            raise ArgumentError(f"{name} {value} is less than the source's {getattr(source, name)}; a twin only grows")
    twin = replace(source, **sizes, tied=False)  # type: ignore[arg-type]
    if twin.heads % twin.kv_heads or twin.head_dim % 2:
        raise ArgumentError(
            f"{twin.heads} query heads over {twin.kv_heads} KV heads of {twin.head_dim} do not make a decoder; the KV "
            "heads must divide the query heads, and a head must have an even size"
        )
    eps = source.norm_eps * source.hidden_size / twin.hidden_size
    return replace(twin, norm_eps=eps, rope=_placed_rope(source.rope, twin.head_dim))


@dataclass(frozen=True, slots=True)
class Placed:
    """The source's rotary scaling in the first pairs of a larger head; the pairs behind them turn plainly."""

    source: RopeSpec
    kind: ClassVar[str] = "placed"
    by_length: ClassVar[bool] = False

    @property
    def attention_factor(self) -> float:
        """As the source's."""
        return self.source.scaling.attention_factor

    def frequencies(self, theta: float, head_dim: int, lengths: Tensor | None = None) -> Tensor:
        """See `RopeScaling.frequencies`: the source's own values, so that nothing is lost to rounding theta'."""
        first = self.source.scaling.frequencies(self.source.theta, self.source.head_dim, lengths)
        rest = plain_frequencies(theta, head_dim)[self.source.head_dim // 2 :].to(first.device)
        return torch.cat((first, rest.expand(*first.shape[:-1], -1)), -1)

    def context_length(self, max_positions: int) -> int:
        """As the source's."""
        return self.source.scaling.context_length(max_positions)


class PlacedByLength(Placed):
    """The same for a scaling that depends on the length (`dynamic`)."""

    __slots__ = ()
    by_length: ClassVar[bool] = True


def _placed_rope(source: RopeSpec, head_dim: int) -> RopeSpec:
    if head_dim == source.head_dim:
        return source
    scaling: RopeScaling = (PlacedByLength if source.scaling.by_length else Placed)(source)
    return RopeSpec(source.theta ** (head_dim / source.head_dim), head_dim, scaling)


@dataclass(frozen=True, slots=True)
class Copies:
    """For each of a twin's heads or MLP units: which of the source's it copies, and how much of it is written.

    `write` is 1 for the real one, 1 and -1 for two that cancel, 0 for a silent one. `read` is 0 where a silent head
    asks nothing: it looks everywhere alike, so the importance of its group keeps the order that the others gave it.
    """

    source: tuple[int, ...]
    read: tuple[int, ...]
    write: tuple[int, ...]
    real: tuple[int, ...]
    """Where each of the source's is found."""


@dataclass(frozen=True, slots=True)
class TwinPlan:
    """Where everything of the source went."""

    heads: Copies
    kv_heads: tuple[int, ...]
    """For each KV head of the twin the source's that it copies."""
    units: Copies
    layers: tuple[tuple[int, bool], ...]
    """For each layer of the twin the source's, and whether it is the real one. The others write nothing."""

    @property
    def real_layers(self) -> tuple[int, ...]:
        """For each layer of the source the twin's layer that stands for it."""
        return tuple(index for index, (_, real) in enumerate(self.layers) if real)

    def kv_head_of(self, head: int) -> int:
        """The twin's KV head that the twin's form of a source query head reads: its recall set is the head's."""
        return self.heads.real[head] * len(self.kv_heads) // len(self.heads.source)


def plan_twin(source: DecoderSpec, twin: DecoderSpec) -> TwinPlan:
    """Raises ArgumentError where the query heads of a group find no room beside copies of their KV head."""
    heads, kv_heads = _plan_heads(source, twin)
    return TwinPlan(heads, kv_heads, _plan_units(source, twin), tuple(_plan_layers(source.layers, twin.layers)))


def _plan_heads(source: DecoderSpec, twin: DecoderSpec) -> tuple[Copies, tuple[int, ...]]:
    """Every source group gets as many twin groups as its heads need; the twin groups left over hold copies alone.

    Cancelling heads sit in one group, so that they cancel over any recall set too.
    """
    own, room = source.heads // source.kv_heads, twin.heads // twin.kv_heads
    shares = math.ceil(own / room)
    if shares * source.kv_heads > twin.kv_heads:
        raise ArgumentError(
            f"{source.heads}/{source.kv_heads} heads do not fit into {twin.heads}/{twin.kv_heads}: with {room} query "
            f"heads a group, at least {shares * source.kv_heads} KV heads are needed"
        )
    kv_heads = [group for group in range(source.kv_heads) for _ in range(shares)]
    kv_heads += [index % source.kv_heads for index in range(twin.kv_heads - len(kv_heads))]
    copied: list[int] = []
    read: list[int] = []
    write: list[int] = []
    real: dict[int, int] = {}
    for index, group in enumerate(kv_heads):
        members = list(range(group * own, group * own + own))
        share = index % shares
        placed = members[share * room : (share + 1) * room] if index < shares * source.kv_heads else []
        real |= {head: len(copied) + place for place, head in enumerate(placed)}
        extra, signs = _extras(placed or members, room - len(placed))
        # A silent head looks where a head that was parted from the group looks: its recall set stays the source's.
        parted = [head for head in members if placed and head not in placed]
        if parted and 0 in signs:
            extra[signs.index(0)] = parted[0]
        copied += placed + extra
        read += [1] * len(placed) + [int(bool(sign or parted)) for sign in signs]
        write += [1] * len(placed) + signs
    places = tuple(real[head] for head in range(source.heads))
    return Copies(tuple(copied), tuple(read), tuple(write), places), tuple(kv_heads)


def _plan_units(source: DecoderSpec, twin: DecoderSpec) -> Copies:
    units = list(range(source.intermediate_size))
    extra, signs = _extras(units, twin.intermediate_size - len(units))
    read = tuple([1] * twin.intermediate_size)
    return Copies(tuple(units + extra), read, tuple([1] * len(units) + signs), tuple(units))


def _extras(members: list[int], count: int) -> tuple[list[int], list[int]]:
    """`count` copies that cancel two by two; an odd one is silent."""
    pairs = [members[index // 2 % len(members)] for index in range(count - count % 2)]
    silent = [members[0]] * (count % 2)
    return pairs + silent, [1, -1] * (count // 2) + [0] * (count % 2)


def _plan_layers(source: int, twin: int) -> Iterator[tuple[int, bool]]:
    """Extra layers stand before the layer they copy, evenly spread.

    They write nothing, so the real layer reads the same input: a copy has the same keys, values and attention.
    """
    extra = twin - source
    doubled = Counter((index + 1) * source // (extra + 1) for index in range(extra))
    for layer in range(source):
        yield from [(layer, False)] * doubled[layer]
        yield layer, True
