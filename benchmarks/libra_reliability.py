"""Are confidences what they say? Reliability of drafted tokens, as tables and as one SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.libra_traces import Start
from glimpse.bench.results import write_whole
from glimpse.pacing.proposals import Floats
from glimpse.pacing.reliability import Reliability, log_odds

BINS = 10


@dataclass(frozen=True, slots=True)
class Judged:
    """Tokens that were judged: what was believed of each, and what became of it."""

    believed: Floats
    right: Floats

    @property
    def log_loss(self) -> float:
        """Mean of minus log of the probability given to what happened, nats."""
        chance = np.clip(self.believed, 1e-3, 1 - 1e-3)
        return float(-np.mean(np.where(self.right > 0, np.log(chance), np.log(1 - chance))))

    @property
    def error(self) -> float:
        """Expected calibration error over bins of equally many tokens."""
        return float(sum(len(own) * abs(own[:, 0].mean() - own[:, 1].mean()) for own in self.bins) / len(self.right))

    @property
    def bins(self) -> list[Floats]:
        """BINS times [tokens, 2], by what was believed."""
        order = np.argsort(self.believed, kind="stable")
        pairs = np.column_stack([self.believed, self.right])[order]
        return np.array_split(pairs, BINS)

    def points(self) -> list[tuple[float, float, int]]:
        """Of each bin: mean belief, share accepted, tokens."""
        return [(float(own[:, 0].mean()), float(own[:, 1].mean()), len(own)) for own in self.bins]


def judged(texts: Sequence[Sequence[Start]], believe: Callable[[Sequence[Sequence[Start]]], list[Floats]]) -> Judged:
    """All tokens up to the first wrong one of every draft."""
    found = []
    for start, chances in zip((start for text in texts for start in text), believe(texts), strict=True):
        count = min(start.right + 1, len(chances))
        found.append(np.column_stack([chances[:count], np.arange(count) < start.right]))
    both = np.concatenate(found)
    return Judged(both[:, 0], both[:, 1])


def by_probability(texts: Sequence[Sequence[Start]]) -> list[Floats]:
    """The drafter's probability of the token, as LibraSpec takes it."""
    return [np.array(start.confidence) for text in texts for start in text]


def mapped(start: Start, *, own_noise: bool = False) -> Floats:
    """The log-odds of one draft by the maps of `reliability`."""
    facts = (np.array(start.confidence), np.array(start.entropy), np.array(start.margin))
    return log_odds(*facts, same_noise=not own_noise, own_noise=own_noise)


def by_margin(texts: Sequence[Sequence[Start]]) -> list[Floats]:
    """The maps alone."""
    return [Reliability().chances(mapped(start)) for text in texts for start in text]


def learned(texts: Sequence[Sequence[Start]]) -> list[Floats]:
    """The maps, and what each text taught before: every draft is believed, then judged."""
    found = []
    for text in texts:
        state = Reliability()
        for start in text:
            odds = mapped(start)
            found.append(state.chances(odds))
            # One draft in eight: as many tokens as a request's rounds judge.
            if len(found) % 8 == 0:
                for place, value in enumerate(odds[: start.right + 1].tolist()):
                    state.learn(value, place < start.right)
    return found


BELIEFS = {"probability": by_probability, "margin, map alone": by_margin, "margin, learned": learned}
_COLOURS = ("#c0392b", "#2874a6", "#1e8449")
_SIDE, _PAD = 260, 46


def figure(panels: dict[str, dict[str, Judged]], path: Path) -> None:
    """One panel a mode: believed against accepted, a line a belief. Raises GlimpseError where it cannot be written."""
    width, height = len(panels) * (_SIDE + 2 * _PAD), _SIDE + 2 * _PAD + 20
    parts = [_panel(name, each, index * (_SIDE + 2 * _PAD) + _PAD) for index, (name, each) in enumerate(panels.items())]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    write_whole(path, "\n".join([head, ground, *parts, "</svg>"]) + "\n")


def _panel(name: str, beliefs: dict[str, Judged], left: float) -> str:
    def spot(x: float, y: float) -> str:
        return f"{left + _SIDE * x:.1f},{_PAD + _SIDE * (1 - y):.1f}"

    text = '<text x="{}" y="{}" font-size="12" text-anchor="{}" fill="{}">{}</text>'
    parts = [f'<rect x="{left}" y="{_PAD}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#888888"/>']
    parts.append(f'<polyline points="{spot(0, 0)} {spot(1, 1)}" stroke="#aaaaaa" stroke-dasharray="4" fill="none"/>')
    parts.append(text.format(left + _SIDE / 2, _PAD - 14, "middle", "#222222", name))
    parts.append(
        text.format(left + _SIDE / 2, _PAD + _SIDE + 34, "middle", "#222222", "believed (tenths of the tokens)")
    )
    parts.append(text.format(left - 24, _PAD - 14, "start", "#222222", "accepted"))
    for tick in (0, 0.5, 1):
        parts.append(text.format(left + _SIDE * tick, _PAD + _SIDE + 16, "middle", "#222222", f"{tick:g}"))
        parts.append(text.format(left - 6, _PAD + _SIDE * (1 - tick) + 4, "end", "#222222", f"{tick:g}"))
    for place, (colour, (belief, own)) in enumerate(zip(_COLOURS, beliefs.items(), strict=False)):
        spots = " ".join(spot(x, y) for x, y, _ in own.points())
        parts.append(f'<polyline points="{spots}" stroke="{colour}" stroke-width="2" fill="none"/>')
        parts += [
            f'<circle cx="{at.split(",")[0]}" cy="{at.split(",")[1]}" r="3" fill="{colour}"/>' for at in spots.split()
        ]
        parts.append(text.format(left + _SIDE - 8, _PAD + _SIDE - 44 + 16 * place, "end", colour, belief))
    return "\n".join(parts)
