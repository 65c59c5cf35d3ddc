"""What a drafter hands over, looked at before it gets into the rows: a drafter may be someone else's."""

from __future__ import annotations

from itertools import pairwise

from glimpse.attention.plan import RowSpec
from glimpse.drafting.drafter import Draft
from glimpse.errors import GlimpseError


def check_planned(name: str, planned: list[RowSpec] | Draft, room: list[int], vocab: int) -> None:
    """Raises GlimpseError naming the drafter where its answer would break a row.

    `room` is how many tokens each row was asked for, `vocab` how many ids the target can read.
    """
    if isinstance(planned, Draft):
        _check_rows(name, len(planned.offsets) - 1, room)
        _check_lengths(name, planned, room)
        _check_ids(name, planned, vocab)
    elif isinstance(planned, list) and all(isinstance(spec, RowSpec) for spec in planned):
        _check_rows(name, len(planned), room)
    else:
        raise GlimpseError(f"drafter {name!r} gave {type(planned).__name__}, not a Draft or a list of RowSpec")


def _check_rows(name: str, rows: int, room: list[int]) -> None:
    if rows != len(room):
        raise GlimpseError(f"drafter {name!r} drafted for {rows} rows where {len(room)} were asked")


def _check_lengths(name: str, draft: Draft, room: list[int]) -> None:
    for most, (start, end) in zip(room, pairwise(draft.offsets), strict=True):
        if end - start > most:
            raise GlimpseError(f"drafter {name!r} drafted {end - start} tokens where {most} were asked")
    nodes, bounds = len(draft.tokens), list(draft.offsets)
    if bounds != sorted(bounds) or (bounds[0], bounds[-1]) != (0, nodes) or len(draft.confidence) != nodes:
        raise GlimpseError(
            f"drafter {name!r} gave {nodes} tokens and {len(draft.confidence)} confidences with the bounds {bounds}"
        )


def _check_ids(name: str, draft: Draft, vocab: int) -> None:
    wrong = [token for token in draft.tokens.tolist() if not 0 <= token < vocab]
    if wrong:
        raise GlimpseError(f"drafter {name!r} drafted token id {wrong[0]}; ids are from 0 to {vocab - 1}")
