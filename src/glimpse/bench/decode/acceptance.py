"""How far drafts were accepted, by depth: measured, and what their own confidence predicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from glimpse.bench.decode.cell import Round


@dataclass(frozen=True, slots=True)
class Depths:
    """Acceptance of drafts of one length, over rows and rounds."""

    accepted: float
    """Mean accepted of a draft, the target's own token not counted."""
    measured: list[float | None]
    """P(token at this depth is accepted, given that all before it were); None where no draft got so far."""
    predicted: list[float | None]
    """Mean probability of those same tokens under their draft law. Coupled drafts are accepted more often than that:
    draft and target share their noise."""
    reached: list[int]
    """How many drafts got so far."""
    tokens: int
    """All tokens written, the target's own ones counted."""

    @property
    def known(self) -> list[float]:
        """`measured` as far as it goes."""
        return [share for share in self.measured if share is not None]


def depths(rounds: Iterable[Round], drafts: int) -> Depths:
    """Counted over all rows that were not idle, and at each depth over the drafts that were as long."""
    drafted, accepted, laws = [], [], []
    for found in rounds:
        for count, committed, law in zip(found.drafted, found.committed, found.confidence, strict=True):
            if committed:
                drafted.append(count)
                accepted.append(committed - 1)
                laws.append(law)
    reached, passed, sure = [], [], []
    for depth in range(drafts):
        far = [row for row, count in enumerate(drafted) if count > depth and accepted[row] >= depth]
        reached.append(len(far))
        passed.append(sum(accepted[row] > depth for row in far))
        sure.append([laws[row][depth] for row in far if depth < len(laws[row])])
    return Depths(
        accepted=sum(accepted) / len(accepted) if accepted else 0.0,
        measured=[own / far if far else None for own, far in zip(passed, reached, strict=True)],
        predicted=[sum(values) / len(values) if values else None for values in sure],
        reached=reached,
        tokens=sum(accepted) + len(accepted),
    )
