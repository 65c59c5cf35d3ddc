"""What a drafter hands over, looked at before it gets into the rows: a drafter may be someone else's."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from glimpse.attention.plan import RowSpec
from glimpse.drafting.drafter import Draft, Drafter
from glimpse.errors import GlimpseError


@dataclass(frozen=True, slots=True)
class Asked:
    """What a drafter was asked for."""

    room: list[int]
    """How many tokens deep each row's draft may be."""
    nodes: int
    """The most nodes of one row."""
    vocab: int
    """How many token ids the target can read."""


def check_planned(drafter: Drafter, planned: list[RowSpec] | Draft, asked: Asked) -> None:
    """Raises GlimpseError naming the drafter where its answer would break a row."""
    name = drafter.name
    if isinstance(planned, Draft):
        _check_rows(name, len(planned.offsets) - 1, asked.room)
        _check_bounds(name, planned)
        _check_shapes(drafter, planned, asked)
        _check_ids(name, planned, asked.vocab)
    elif isinstance(planned, list) and all(isinstance(spec, RowSpec) for spec in planned):
        _check_rows(name, len(planned), asked.room)
    else:
        raise GlimpseError(f"drafter {name!r} gave {type(planned).__name__}, not a Draft or a list of RowSpec")


def _check_rows(name: str, rows: int, room: list[int]) -> None:
    if rows != len(room):
        raise GlimpseError(f"drafter {name!r} drafted for {rows} rows where {len(room)} were asked")


def _check_bounds(name: str, draft: Draft) -> None:
    nodes, bounds = len(draft.tokens), list(draft.offsets)
    whole = bounds == sorted(bounds) and (bounds[0], bounds[-1]) == (0, nodes)
    if not whole or not len(draft.confidence) == len(draft.parents) == nodes:
        raise GlimpseError(
            f"drafter {name!r} gave {nodes} tokens, {len(draft.parents)} parents and {len(draft.confidence)} "
            f"confidences with the bounds {bounds}"
        )


def _check_shapes(drafter: Drafter, draft: Draft, asked: Asked) -> None:
    tokens, parents = draft.tokens.tolist(), draft.parents.tolist()
    for most, (start, end) in zip(asked.room, pairwise(draft.offsets), strict=True):
        own, depth = parents[start:end], end - start
        if own != list(range(-1, depth - 1)):
            _check_tree(drafter, tokens[start:end], own, asked.nodes)
            depth = tree_depth(own)
        if depth > most:
            raise GlimpseError(f"drafter {drafter.name!r} drafted {depth} tokens where {most} were asked")


def _check_tree(drafter: Drafter, tokens: list[int], parents: list[int], most: int) -> None:
    if not drafter.gives_tree:
        raise GlimpseError(f"drafter {drafter.name!r} gave a tree; it says that it gives chains (gives_tree = False)")
    if len(parents) > most:
        raise GlimpseError(f"drafter {drafter.name!r} gave a tree of {len(parents)} nodes; {most} are the most")
    wrong = next((node for node, parent in enumerate(parents) if not -1 <= parent < node), None)
    if wrong is not None:
        raise GlimpseError(
            f"drafter {drafter.name!r} gave node {wrong} the parent {parents[wrong]}; it must be from -1 to {wrong - 1}"
        )
    pairs = list(zip(parents, tokens, strict=True))
    if len(set(pairs)) < len(pairs):
        parent, token = next(pair for node, pair in enumerate(pairs) if pair in pairs[:node])
        raise GlimpseError(f"drafter {drafter.name!r} drafted token id {token} twice after node {parent}")


def tree_depth(parents: list[int]) -> int:
    """How many tokens the deepest path has, for the parents of one row's nodes."""
    depths = [0]
    for parent in parents:
        depths.append(depths[parent + 1] + 1)
    return max(depths)


def _check_ids(name: str, draft: Draft, vocab: int) -> None:
    wrong = [token for token in draft.tokens.tolist() if not 0 <= token < vocab]
    if wrong:
        raise GlimpseError(f"drafter {name!r} drafted token id {wrong[0]}; ids are from 0 to {vocab - 1}")
