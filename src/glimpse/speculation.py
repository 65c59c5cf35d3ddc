"""What speculation did for one request: drafted, accepted, where, and at what cost in forwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from glimpse.cache.reads import Reads


@dataclass(frozen=True, slots=True)
class Choice:
    """Who the drafter `auto` lets draft from some token on, and the numbers it went by."""

    position: int
    """Tokens written when it was chosen."""
    drafter: str
    expected: Mapping[str, float]
    """Of every candidate, the speed expected over plain decoding."""
    plain_s: float
    """Seconds of a plain step (the row's share of it), by which speeds were reckoned."""
    note: str = ""
    """Why some drafters are no candidates here."""

    def to_json(self) -> dict[str, object]:
        """An entry of `choices`."""
        speeds = {name: round(speed, 3) for name, speed in self.expected.items()}
        entry: dict[str, object] = {"position": self.position, "drafter": self.drafter, "expected": speeds}
        entry["plain_ms"] = round(1e3 * self.plain_s, 3)
        return entry | ({"note": self.note} if self.note else {})


@dataclass(slots=True)
class Speculation:
    """Counts of one request, added to once a round.

    The target's own token (the correction, or the bonus after a draft accepted whole) is never counted as drafted or as
    accepted; `mean_accepted_length` is the one figure that includes it, as vLLM's does.
    """

    drafter: str = "none"
    pacer: str = "fixed"
    acceptance: str = "coupled"
    lossless: bool = True
    lossy: str | None = None
    """The lossy mode that was asked for, with its strength."""
    relaxed: int = 0
    """Accepted draft tokens that an exact rule would not have accepted."""
    trusted: int = 0
    """Tokens that were written without a verification."""
    draft_steps: int = 0
    """Forward passes spent on drafting; 0 for drafters that look up."""
    plain_steps: int = 0
    """Rounds without a draft: one token each, as plain decoding."""
    graph_steps: int = 0
    """Decoding steps of this request that the GPU ran as CUDA graphs."""
    waiting_steps: int = 0
    """Of these, the ones before which the GPU had to wait for drafts that the host made of what it had just read."""
    eager_steps: Counter[str] = field(default_factory=Counter)
    """Its other decoding steps where graphs were to be expected, by the reason why they were not."""
    draft_lengths: Counter[int] = field(default_factory=Counter)
    """How many rounds had a draft of so many nodes (a chain: tokens), 0 not included."""
    choices: list[Choice] = field(default_factory=list)
    """What the drafter `auto` chose, the first choice and every change; empty for other drafters."""
    reads: Reads = field(default_factory=Reads, repr=False, compare=False)
    """Where in the context draft rows looked that read only a part of it."""
    _drafted_at: list[int] = field(default_factory=list, repr=False)
    _reached_at: list[int] = field(default_factory=list, repr=False)
    _accepted_at: list[int] = field(default_factory=list, repr=False)

    def record(self, drafted: int, accepted: int, depth: int | None = None) -> None:
        """Add a round in which `drafted` nodes were verified and `accepted` of them were kept in the output.

        `depth`: how many tokens the deepest path of a tree has; None: a chain, as deep as it has nodes.

        Drafts that were thrown away before verification do not count; nor do, as accepted, drafts behind the end of the
        output, so `accepted` over all rounds never exceeds the tokens of the output. Raises ValueError unless
        0 <= accepted <= depth <= drafted.
        """
        depth = drafted if depth is None else depth
        if not 0 <= accepted <= depth <= drafted:
            raise ValueError(
                f"accepted must be between 0 and depth ({depth}), and depth at most drafted ({drafted}); got {accepted}"
            )
        if drafted == 0:
            self.plain_steps += 1
            return
        self.draft_lengths[drafted] += 1
        for counts in (self._drafted_at, self._reached_at, self._accepted_at):
            counts.extend([0] * (depth - len(counts)))
        for position in range(depth):
            self._drafted_at[position] += 1
            self._reached_at[position] += position <= accepted
            self._accepted_at[position] += position < accepted

    def drafter_at(self, position: int) -> str:
        """Who was to draft for the output token at `position`, from 0: of "auto", the one it had chosen by then."""
        chosen = [choice.drafter for choice in self.choices if choice.position <= position]
        return chosen[-1] if chosen else self.drafter

    @property
    def rounds(self) -> int:
        """Verifications with at least one draft."""
        return sum(self.draft_lengths.values())

    @property
    def drafted(self) -> int:
        """Draft tokens verified: of a tree, all nodes."""
        return sum(nodes * rounds for nodes, rounds in self.draft_lengths.items())

    @property
    def accepted(self) -> int:
        """Draft tokens kept; at most `drafted`."""
        return sum(self._accepted_at)

    @property
    def drafted_by_depth(self) -> list[int]:
        """How many rounds drafted so deep: position i, from 0, of a chain or of a tree's deepest path."""
        return list(self._drafted_at)

    @property
    def accepted_by_depth(self) -> list[int]:
        """How many rounds kept a draft token at that depth."""
        return list(self._accepted_at)

    @property
    def recalled(self) -> list[float] | None:
        """Of all that drafts read of the context, the share of each 64th of it; None where none read only a part."""
        return self.reads.shares(64)

    @property
    def emitted(self) -> int:
        """Tokens that all rounds yield, the target's own included, before the end of the output cuts the last one."""
        return self.accepted + self.rounds + self.plain_steps + self.trusted

    @property
    def acceptance_rate(self) -> float:
        """Accepted / drafted; 0 when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def mean_accepted_length(self) -> float:
        """1 + accepted / rounds: tokens a verification, the target's own included; 1 without rounds."""
        return 1 + self.accepted / self.rounds if self.rounds else 1.0

    @property
    def acceptance_by_position(self) -> list[float]:
        """Of the rounds that drafted position i (from 0; of a tree, that deep), the share that accepted it."""
        return [accepted / drafted for accepted, drafted in zip(self._accepted_at, self._drafted_at, strict=True)]

    @property
    def conditional_acceptance(self) -> list[float | None]:
        """Of the rounds that drafted position i and accepted all before it, the share that accepted it, or None."""
        return [
            accepted / reached if reached else None
            for accepted, reached in zip(self._accepted_at, self._reached_at, strict=True)
        ]

    def to_json(self) -> dict[str, object]:
        """The `speculation` object of `--json`; `lossless` is said where it is not so, graphs where there could be."""
        report: dict[str, object] = {
            "drafter": self.drafter,
            "pacer": self.pacer,
            "acceptance": self.acceptance,
            "rounds": self.rounds,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "mean_accepted_length": self.mean_accepted_length,
            "acceptance_rate": self.acceptance_rate,
            "acceptance_by_position": self.acceptance_by_position,
        }
        if self.choices:
            report["choices"] = [choice.to_json() for choice in self.choices]
        if self.graph_steps or self.eager_steps:
            report |= {"graph_steps": self.graph_steps, "waiting_steps": self.waiting_steps}
            report["eager_steps"] = dict(self.eager_steps)
        if self.lossy is not None:
            report |= {"lossy": self.lossy, "relaxed": self.relaxed, "trusted": self.trusted}
        return report if self.lossless else {**report, "lossless": False}
