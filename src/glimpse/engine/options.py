"""How an engine decodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from glimpse.acceptance.lossy import Lossy
from glimpse.cache.recall import RecallBudget
from glimpse.drafting import DRAFTERS
from glimpse.errors import ArgumentError
from glimpse.pacing.riding import MODES
from glimpse.sampling import checks

_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "drafter": checks.text,
    "pacer": checks.text,
    "acceptance": checks.text,
    "draft_tokens": checks.Integer(0, 256),
    "budget": checks.Number(0, 1, open_low=True),
    "budget_floor": checks.Integer(0),
    "exact": checks.Choice("tokens", "bitwise"),
    "reserve": checks.Choice("full", "next"),
    "prefix_reuse": checks.flag,
    "refresh_sets": checks.text,
    "refresh_layer": checks.Integer(0),
    "suffix_store": checks.text,
    "suffix_store_tokens": checks.Integer(2, 10_000_000),
    "adapter": checks.text,
    "block_mode": checks.Choice(*MODES),
    "lossy": checks.text,
}


_OPTIONAL = (
    "pacer", "acceptance", "draft_tokens", "budget", "budget_floor", "refresh_sets", "refresh_layer", "suffix_store",
    "suffix_store_tokens", "adapter", "block_mode", "lossy",
)  # fmt: skip
STORE_TOKENS = 200_000
"""Tokens that a store of earlier requests keeps where nothing else is asked: about 30 MB."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to decode. Names are looked up in the registries; an unknown one lists the known ones.

    Raises ArgumentError for a value of a wrong type or out of range.
    """

    drafter: str = "auto"
    pacer: str | None = None
    """None: the one that the drafter needs or goes best with, else "entropy" (`paced_by`)."""
    acceptance: str | None = None
    """An exact rule; None: "coupled" (`accepted_by`), or what the lossy mode stands for."""
    draft_tokens: int | None = None
    """Draft length of `fixed`, the longest of other pacers, at most 256; of a tree its nodes, and so its depth too.
    None leaves it to the pacer."""
    budget: float | None = None
    """Share of the context that a sparse draft reads, in (0, 1]; None: 0.1."""
    budget_floor: int | None = None
    """A sparse draft reads at least so many positions; None: 256."""
    refresh_sets: str | None = None
    """How the drafter `refresh` chooses sets: "heads" or "pages"; None: "heads"."""
    refresh_layer: int | None = None
    """The layer, from 0, at which the drafter `refresh` reads everything; None leaves it to the drafter."""

    exact: str = "tokens"
    """"tokens": what the target would write, near ties of rounding apart; "bitwise": the same bits in any batch and
    with any draft, slower, on a GPU only."""
    reserve: str = "full"
    """Pages that a request must find to be taken in: "full", those of the longest output it may have; "next", those of
    its next steps, so that more run at once, and the youngest is put back (and read again later) when pages run out."""
    prefix_reuse: bool = True
    """Whether a prompt that begins as an earlier one shares what the cache still has of that; a pinned one is shared
    anyway."""

    suffix_store: str | None = None
    """The name of a store where requests leave what they wrote, for later ones with the same name to draft from; None:
    nothing outlives a request."""
    suffix_store_tokens: int | None = None
    """The most tokens that this store keeps; None: 200,000."""

    adapter: str | None = None
    """The file of the drafter `block`, made by `glimpse train block`; with it `auto` may choose that one too."""
    block_mode: str | None = None
    """When blocks are drafted: "parallel", beside every verification; "sequential", in steps of their own; "auto" and
    None: by what measured steps say of every group of mask tokens."""
    lossy: str | None = None
    """A mode that trades exactness for speed, "slowfast" or "RULE:STRENGTH" (`glimpse.acceptance.lossy`); None: the
    text is the target's own."""

    batch_graphs: bool = False
    """Set where an engine is built: several rows may run in a step, as a GPU's graphs, and for that a drafter may have
    a pacer of its own (`Drafter.batch_pacer`)."""

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                object.__setattr__(self, name, check(name, value))
        if self.lossy is not None:
            object.__setattr__(self, "lossy", self._settled_lossy(self.lossy))

    def changed(self, **options: Any) -> EngineOptions:
        """With other values for some of them. Raises ArgumentError for one that does not exist."""
        for name in options:
            if name not in NAMES:
                raise ArgumentError(f"unknown option {name!r}; known: {', '.join(NAMES)}")
        return replace(self, **options)

    def _settled_lossy(self, lossy: str) -> str:
        """The mode with its strength. Raises ArgumentError where something exact is asked for as well."""
        mode = Lossy.parse(lossy)
        for name, value in (("acceptance", self.acceptance), ("exact", None if self.exact == "tokens" else self.exact)):
            if value is not None:
                raise ArgumentError(f"{name} {value!r} is exact and lossy '{mode}' is not: leave one of them out")
        return str(mode)

    @property
    def accepted_by(self) -> str:
        """The name of the exact acceptance rule, where no lossy mode takes its place."""
        return "coupled" if self.acceptance is None else self.acceptance

    @property
    def paced_by(self) -> str:
        """The name of the pacer."""
        if self.pacer is not None:
            return self.pacer
        drafter = DRAFTERS.get(self.drafter)
        usual: str = (drafter.batch_pacer if self.batch_graphs else None) or drafter.usual_pacer
        return drafter.paced_by or usual

    @property
    def recall(self) -> RecallBudget:
        """How much of the context a sparse draft reads."""
        usual = DRAFTERS.get(self.drafter).usual_budget
        given = {"share": self.budget, "floor": self.budget_floor}
        return RecallBudget(**{**usual, **{name: value for name, value in given.items() if value is not None}})


NAMES = tuple(field.name for field in fields(EngineOptions) if field.name != "batch_graphs")
"""What can be asked for."""
