"""How far drafts were accepted, by depth: measured, and predicted from the drafts' own confidence."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from glimpse.bench.decode.cell import Round

_EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
"""Classes of confidence."""


@dataclass(frozen=True, slots=True)
class Depths:
    """Acceptance of drafts of one length, over rows and rounds."""

    accepted: float
    """Mean accepted of a draft, the target's own token not counted."""
    measured: list[float | None]
    """P(token at this depth is accepted, given that all before it were); None where no draft got so far."""
    predicted: list[float | None]
    """The mean, over those same tokens, of the share accepted among tokens of like confidence in the other half of the
    rounds; None without confidences."""
    confidence: list[float | None]
    """The tokens' mean probability under their draft law. Coupled drafts are accepted more often than that: draft and
    target share their noise."""
    reached: list[int]
    """How many drafts got so far."""
    tokens: int
    """All tokens written, the target's own ones counted."""

    @property
    def known(self) -> list[float]:
        """`measured` as far as it goes."""
        return [share for share in self.measured if share is not None]


@dataclass(frozen=True, slots=True)
class _Judged:
    """A draft token that was judged: all before it were accepted."""

    depth: int
    accepted: bool
    confidence: float | None
    half: int


def depths(rounds: Iterable[Round], drafts: int) -> Depths:
    """Counted over all rows that were not idle, and at each depth over the drafts that were as long."""
    rounds = list(rounds)
    committed = [count for found in rounds for count in found.committed if count]
    judged = [token for half, found in enumerate(rounds) for token in _judged(found, half % 2)]
    curves = [_curve([token for token in judged if token.half != half]) for half in (0, 1)]
    by_depth = [[token for token in judged if token.depth == depth] for depth in range(drafts)]
    sure = [[token for token in tokens if token.confidence is not None] for tokens in by_depth]
    return Depths(
        accepted=sum(committed) / len(committed) - 1 if committed else 0.0,
        measured=[_mean([float(token.accepted) for token in tokens]) for tokens in by_depth],
        predicted=[_mean([curves[token.half][_class(token)] for token in tokens]) for tokens in sure],
        confidence=[_mean([token.confidence or 0.0 for token in tokens]) for tokens in sure],
        reached=[len(tokens) for tokens in by_depth],
        tokens=sum(committed),
    )


def _judged(found: Round, half: int) -> Iterator[_Judged]:
    for drafted, committed, sure in zip(found.drafted, found.committed, found.confidence, strict=True):
        for depth in range(min(drafted, committed)):
            yield _Judged(depth, depth < committed - 1, sure[depth] if depth < len(sure) else None, half)


def _curve(tokens: Sequence[_Judged]) -> list[float]:
    """P(accepted) by class of confidence; a class without tokens takes the mean of all (0.5 of none)."""
    sure = [token for token in tokens if token.confidence is not None]
    usual = _mean([float(token.accepted) for token in sure])
    classes = [[float(token.accepted) for token in sure if _class(token) == own] for own in range(len(_EDGES) + 1)]
    shares = [_mean(own) for own in classes]
    return [share if share is not None else 0.5 if usual is None else usual for share in shares]


def _class(token: _Judged) -> int:
    return bisect(_EDGES, token.confidence or 0.0)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
