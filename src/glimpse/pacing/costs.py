"""The measured step-time surface: what a step costs, learned from the steps that ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

FEATURES = ("step", "full_tokens", "draft_tokens", "full_kv", "draft_kv", "pairs", "rounds", "mixed", "riding")
"""What a step is priced by: itself, and the counts of its `StepLoad`."""
Counts = np.ndarray | Sequence[int] | int
Kind = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What one engine step carried."""

    full_tokens: int = 0
    """Query tokens of rows that read everything (verify, plain)."""
    draft_tokens: int = 0
    """Query tokens of draft rows."""
    full_kv: int = 0
    """Positions read by the rows that read everything."""
    draft_kv: int = 0
    """Positions read by draft rows."""
    pairs: int = 0
    """Query tokens times positions, summed over the rows that read everything: the arithmetic of attention."""
    rounds: int = 0
    """Draft rounds that began: each chooses a recall set."""
    mixed: int = 0
    """1 where some rows draft and others read everything: such a step runs both kinds of attention."""
    riding: int = 0
    """1 where mask tokens ride: the weights of their layers are read again, for one as for many."""

    def __add__(self, other: StepLoad) -> StepLoad:
        return StepLoad(*(a + b for a, b in zip(self._tuple(), other._tuple(), strict=True)))

    def _tuple(self) -> tuple[int, ...]:
        return (
            self.full_tokens, self.draft_tokens, self.full_kv, self.draft_kv, self.pairs, self.rounds, self.mixed,
            self.riding,
        )  # fmt: skip

    def features(self) -> np.ndarray:
        """[9] float64: a constant and the eight counts."""
        return np.array((1, *self._tuple()), dtype=np.float64)

    @property
    def kind(self) -> Kind:
        """Steps of one kind cost about the same: equal token counts, positions within a factor of two."""
        return (
            self.full_tokens,
            self.draft_tokens,
            self.full_kv.bit_length(),
            self.draft_kv.bit_length(),
            self.rounds,
            self.riding,
        )


def verifying(tokens: int, read: int) -> Kind:
    """The kind of steps of `tokens` query tokens that read everything, `read` positions, and nothing else."""
    return tokens, 0, read.bit_length(), 0, 0, 0


@dataclass(frozen=True, slots=True)
class Shares:
    """What bytes say nothing of, as shares of a step that reads the weights."""

    token: float
    """Of each query token."""
    round: float
    """Of each recall set that is chosen."""
    mixed: float
    """Of running both kinds of attention."""
    riding: float
    """Of the layers that mask tokens go through, once more."""


ON_CPU = Shares(0.03, 0.2, 0.2, 0.2)
ON_GPU = Shares(0.004, 0.012, 0.5, 0.012)
"""By the H200's figures (docs/performance-gpu.md). Rather too cheap: what is thought dear is never tried."""

BELIEVED = 0.1
"""Share of what is predicted that each step of a kind may say it is dearer."""


@dataclass(slots=True)
class _Kind:
    """The last steps of one kind."""

    loads: deque[np.ndarray] = field(default_factory=lambda: deque(maxlen=9))
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=9))
    _point: tuple[np.ndarray, float] | None = None

    def add(self, load: np.ndarray, seconds: float) -> None:
        """One more step."""
        self.loads.append(load)
        self.seconds.append(seconds)
        self._point = None

    @property
    def point(self) -> tuple[np.ndarray, float]:
        """Mean load and median seconds; kept, as a step changes one kind and every fit asks for all."""
        if self._point is None:
            self._point = np.mean(self.loads, axis=0), median(self.seconds)
        return self._point


class StepCosts:
    """Seconds of a step as a linear function of its load, fitted over the kinds of step seen.

    ASPIRE's form (arXiv 2609.17943: constant + tokens + KV tokens read), with draft and full rows apart, and the
    arithmetic of attention beside its bytes. Each kind of step counts by the medians of its last nine, so that one slow
    step does no harm and a kind that is rare now is not forgotten. Where kinds are missing, the fit leans on what bytes
    predict, scaled to this machine by the kinds there are: `weight_bytes` are read once a step, `kv_bytes` once a
    position, at first at `bandwidth` bytes per second. `start` are coefficients measured before on this device
    (`calibration`); they take the place of what bytes predict. `lean` is how much they count.

    Steps are no straight line over batches of 1 to 256 rows. The fit is for the batch that runs now: each doubling
    between it and a kind's own batch leaves `near` of that kind's weight (1: all batches count alike). `shares` is what
    bytes say nothing of (`Shares`), and counts until it has been measured.
    """

    LEAN = 0.02
    """Weight of a coefficient's relative distance from the prediction, against one step's relative error."""
    NEAR = 0.1
    WAITS = 9
    """Waits for the host that are remembered."""
    RUNNING = 8
    """The batch that runs now is the largest of so many steps: a prompt may be read by itself in between."""
    KINDS = 128
    """Kinds of step remembered, the last ones seen."""
    REFIT = 8
    """Steps of kinds well known after which all is fitted anew: a fit takes a tenth of a GPU's plain step."""

    def __init__(
        self,
        weight_bytes: int,
        kv_bytes: int,
        bandwidth: float = 20e9,
        *,
        start: Sequence[float] | None = None,
        lean: float = LEAN,
        near: float = NEAR,
        shares: Shares = ON_CPU,
    ) -> None:
        self._lean, self._near = lean, near
        step, position = weight_bytes / bandwidth, kv_bytes / bandwidth
        token, others = shares.token * step, (shares.round * step, shares.mixed * step, shares.riding * step)
        self._start = np.array((step, token, token, position, position, 0.15 * position, *others))
        if start is not None:
            # What was measured as nothing may still grow: the fit leans on a relative distance.
            self._start = np.maximum(np.asarray(start, dtype=np.float64), 1e-3 * self._start)
        self._kinds: dict[Kind, _Kind] = {}
        self._fit: np.ndarray | None = self._start
        self._scale = 1.0
        """Of the steps seen, over what was predicted before any."""
        self._since, self.observed = 0, 0
        """Steps seen since the fit, and in all: while there are no more, all prices but the waits stay."""
        self._running: deque[float] = deque(maxlen=self.RUNNING)
        self._waits: deque[float] = deque(maxlen=self.WAITS)

    @property
    def steps(self) -> int:
        """How many steps it still remembers."""
        return sum(len(kind.seconds) for kind in self._kinds.values())

    @property
    def coefficients(self) -> np.ndarray:
        """[9] seconds per unit of `StepLoad.features`, none negative."""
        if self._fit is None:
            self._fit, self._since = self._solve(), 0
        return self._fit

    @property
    def foretold(self) -> np.ndarray:
        """[9] as `coefficients`: what the fit leans on, at this machine's speed."""
        self.settle()  # a fit finds the scale
        return self._start * self._scale

    def observe(self, load: StepLoad, seconds: float) -> None:
        """Learns from one step."""
        # The kinds last seen stay: a busy batch has ever new ones, and each makes the fit slower.
        kind = self._kinds.pop(load.kind, None) or _Kind()
        self._kinds[load.kind] = kind
        if len(self._kinds) > self.KINDS:
            del self._kinds[next(iter(self._kinds))]
        known, features = len(kind.seconds) == kind.seconds.maxlen, load.features()
        kind.add(features, seconds)
        self._running.append(float(_rows_of(features)))
        self._since, self.observed = self._since + 1, self.observed + 1
        if not known or self._since >= self.REFIT:
            self._fit = None

    def wait(self, seconds: float) -> None:
        """So long a device waited for the host before it verified what that had drafted."""
        self._waits.append(seconds)

    @property
    def waits(self) -> float:
        """Seconds that a step with drafts from the host costs besides its load, whatever is verified in it: the median
        of the last ones; 0 where nothing waits, as on a CPU."""
        return median(self._waits) if self._waits else 0.0

    def settle(self) -> None:
        """Makes the fit that would be made when a price is next asked for."""
        _ = self.coefficients

    def points(self) -> list[tuple[np.ndarray, float]]:
        """For each kind of step seen, its mean load ([9], as `StepLoad.features`) and median seconds."""
        return [kind.point for kind in self._kinds.values()]

    def samples(self) -> list[tuple[np.ndarray, list[float]]]:
        """For each kind of step seen, its mean load ([9], as `StepLoad.features`) and what its last steps took."""
        return [(kind.point[0], list(kind.seconds)) for kind in self._kinds.values()]

    def seen(self, load: StepLoad) -> int:
        """How many of the last steps were of this load's kind, at most 9."""
        kind = self._kinds.get(load.kind)
        return len(kind.seconds) if kind else 0

    def measured(self, load: StepLoad) -> float | None:
        """The median seconds of the last steps of this load's kind; None where none ran."""
        kind = self._kinds.get(load.kind)
        return kind.point[1] if kind else None

    def off(self, load: StepLoad) -> float | None:
        """By how many seconds steps of this load's kind took longer than is predicted; None where none ran. One step is
        believed by half, nine by nine tenths.
        """
        measured, count = self.measured(load), self.seen(load)
        return None if measured is None else (measured - self.seconds(load)) * count / (count + 1)

    def missed(self, kinds: Sequence[Kind]) -> dict[int, float]:
        """As `off`, of those of the `kinds` that ran, by place; but at what those steps carried themselves, and dearer
        by no more than `BELIEVED` for each of them: where few ran, a slow one keeps nobody from trying again."""
        ran = [(place, own) for place, kind in enumerate(kinds) if (own := self._kinds.get(kind)) is not None]
        if not ran:
            return {}
        predicted = np.array([own.point[0] for _, own in ran]) @ self.coefficients
        return {
            place: min((own.point[1] - said) * count / (count + 1), BELIEVED * count * said)
            for (place, own), said in zip(ran, predicted.tolist(), strict=True)
            for count in (len(own.seconds),)
        }

    def seconds(self, load: StepLoad) -> float:
        """Predicted seconds of a step with this load."""
        return float(load.features() @ self.coefficients)

    def marginal(self, **counts: Counts) -> np.ndarray:
        """Seconds that counts (those of `StepLoad`, numbers or arrays of one shape) add to a step that runs anyway."""
        named = dict(zip(FEATURES, self.coefficients, strict=True))
        seconds = np.zeros(())
        for name, count in counts.items():
            seconds = seconds + named[name] * np.asarray(count, dtype=np.float64)
        return np.asarray(seconds)

    def _solve(self) -> np.ndarray:
        points = self.points()
        loads, seconds = np.array([load for load, _ in points]), np.array([time for _, time in points])
        # Relative errors: a step of 10 ms should be right to a tenth, not to what is a tenth of a second-long one.
        errors = loads / seconds[:, None]
        apart = np.abs(np.log2(_rows_of(loads) / max(self._running)))
        counts = np.array([len(kind.seconds) for kind in self._kinds.values()]) * self._near**apart
        scales = 1 / (errors @ self._start)
        self._scale = float(np.median(scales if self._near == 1 else scales[apart <= apart.min() + 1]))
        start = self._start * self._scale
        lean = self._lean / start**2
        moment = errors.T * counts @ errors + np.diag(lean)
        return _least_squares(moment, counts @ errors + lean * start)


def _rows_of(loads: np.ndarray) -> np.ndarray:
    """Rows of steps with features [..., 9]: those that draft, and query tokens over the query tokens of a row.

    Masks that ride with rows that read everything are draft tokens too, but no rows.
    """
    full, drafting, read, pairs, riding = (loads[..., at] for at in (1, 2, 3, 5, 8))
    drafting = np.where(riding > 0, 0, drafting)
    return np.asarray(np.maximum(1.0, drafting + full * read / np.maximum(pairs, 1.0)))


def _least_squares(moment: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The solution of moment x = target without negative entries: those that would be are left out of the fit.

    Cut off afterwards they would leave the others fitted around something that is not there.
    """
    free = np.ones(len(target), dtype=bool)
    while True:
        found = np.zeros(len(target))
        found[free] = np.linalg.solve(moment[np.ix_(free, free)], target[free])
        if (found >= 0).all():
            return found
        free &= found >= 0
