"""What a pacer is: it decides, row by row, whether to draft one more token, verify, or decode plainly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, cast

from torch import Tensor

from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Drafter, Outcome
from glimpse.errors import GlimpseError
from glimpse.pacing.costs import StepCosts
from glimpse.speculation import Choice

if TYPE_CHECKING:
    from glimpse.pacing.in_step import InStep
    from glimpse.pacing.padding import Sizes


class Action(IntEnum):
    """What a row does in the next step."""

    PLAIN = 0
    """One token, nothing drafted, nothing learned."""
    DRAFT = 1
    VERIFY = 2
    """Verify what is drafted (maybe nothing) and gather the importance that the drafter wants."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """One entry a row."""

    actions: list[Action]
    room: list[int]
    """How many more tokens are worth drafting, for a drafter that drafts at once."""
    holds: int = 0
    """Where all are told PLAIN: for how many more steps they would be told so again, as long as no row comes or goes.
    A GPU whose plain step takes half a millisecond need not wait for the answer."""
    burst: int = 0
    """Where rows are to draft in step: how many draft steps they take, as long as no row comes or goes. A GPU runs them
    in one go; rows without room for them stand still until the batch verifies."""
    closes: bool = False
    """All rows verify after the burst."""
    choices: Mapping[int, Choice] = field(default_factory=dict)
    """By slot, of rows whose drafter was chosen anew: what was chosen, and why."""


def draft_up_to(lengths: list[int], rows: RowView, room: list[int], holds: int = 0) -> Decisions:
    """Each row drafts until its draft has `lengths[i]` tokens or there is no room, then verifies; see `Decisions`."""
    drafted = rows.column(rows.rows.draft_len)
    more = [max(0, min(length - have, most)) for length, have, most in zip(lengths, drafted, room, strict=True)]
    actions = [
        Action.DRAFT if left else Action.VERIFY if have else Action.PLAIN
        for have, left in zip(drafted, more, strict=True)
    ]
    return Decisions(actions, more, holds=holds)


@dataclass(frozen=True, slots=True)
class PaceContext:
    """What a pacer may be built from."""

    costs: StepCosts
    draft_tokens: int | None
    """The draft length asked for: the length of `fixed`, the most for others; None leaves it to the pacer."""
    drafts_at_once: bool
    """The drafter hands over whole drafts (no forward, no entropies)."""
    draft_positions: Callable[[int], int]
    """How many positions a draft step reads of a context of that length."""
    can_draft: bool = True
    """False: the drafter never drafts."""
    branches: bool = False
    """The drafter hangs branches on chains that it needs forwards for (a `SpineDrafter`)."""
    trees: bool = False
    """Drafts may branch."""
    on_gpu: bool = False
    """Steps run on a GPU, with drafters for that."""
    padded: Callable[[int], int] | None = None
    """With how many query tokens a verification of so many runs, where steps are made for few sizes (a GPU's trees)."""
    may_drop: bool = True
    """Drafted tokens may be dropped for what they turned out to be. False: the acceptance rule is exact only if all
    that was drawn is verified (DESIGN, "No anticipation")."""
    same_noise: bool = True
    """Draft and target draw with the same noise (`coupled`), so a draft token stands or falls by its margin."""
    ends: Callable[[], Collection[int]] = frozenset
    """The token ids that end a sentence; they are looked for when it is called."""


class Pacer(Protocol):
    """Decides draft lengths. May look at everything drafted so far; whatever is drafted with a law is then verified.

    Stopping after a token was seen, and verifying all that was drafted, keeps every acceptance rule exact
    (no anticipation). `trim` is only called for deterministic drafts, where any cut is exact, and of pacers that
    `roll_back` for self-drafted chains too, under rules that allow it (`PaceContext.may_drop`). Every pacer inherits
    this class: what only few have is here with the value that the others have.
    """

    name: str
    most: int
    """The longest draft it ever asks for."""
    foretells: bool
    """Whether its draft lengths do not depend on what is drafted: a GPU then runs whole rounds of them."""

    paces: str | None = None
    """The only drafter it goes with."""
    reads_drafts: bool = False
    """It looks at the tokens of drafts, which a GPU's rounds do not hand over in time."""
    candidates: int = 0
    """Of a `ChainPacer`: of how many tokens it hears at every draft token."""
    rolls_back: bool = False
    """Of a `ChainPacer`: it gives back tokens of self-drafted chains (`trim`)."""

    cuts: bool = False
    """A `MarginalPacer`, whose word on blocks can be foretold (`block_rule`): a GPU cuts them where they are made."""

    in_step: InStep | None = None
    """What says when a GPU's batch drafts for itself instead of asking the host, and paces it then."""

    @property
    def plain_is_unknown(self) -> bool:
        """Whether it waits for plain steps, to learn what they cost: then nothing rides on them."""
        return False

    @classmethod
    def build(cls, context: PaceContext) -> Pacer:
        """A pacer for an engine. Raises GlimpseError where nobody wrote one."""
        raise GlimpseError(f"the pacer {cls.__name__} has no build(context)")

    def prepare(self) -> None:
        """Nothing waits now: what the next decisions are made by may be worked out."""
        return

    def attach(self, drafter: Drafter) -> None:
        """Is given the drafter whose rows it paces, once that is built."""
        return

    def runs_in(self, sizes: Sizes) -> None:
        """Is told what verifications run in, where that is known better than `PaceContext.padded` says."""
        return

    @abstractmethod
    def admit(self, rows: RowView) -> None:
        """Requests have entered these rows."""

    @abstractmethod
    def decide(self, rows: RowView, room: list[int]) -> Decisions:
        """`room[i]`: how many more draft tokens row i could use at all (context, max_tokens, space)."""

    @abstractmethod
    def trim(self, rows: RowView) -> list[int]:
        """How many of the drafted tokens of each row are worth verifying; may put other nodes of a tree first.

        A spine is whole, and its branches are hung on, before it is asked.
        """

    @abstractmethod
    def observe(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """Learns from verifications. The rows' draft entropies and confidences are still there."""

    @abstractmethod
    def retire(self, rows: RowView) -> None:
        """Frees everything kept for these rows."""


class ChainPacer(Pacer, Protocol):
    """A pacer that looks at the tokens of self-drafted chains: it is told by how much each was drawn.

    Where `rolls_back`, it is asked to `trim` such a chain before that is verified. Where it is not told or not asked (a
    GPU's rounds, which are a step ahead), it does with what the rows say.
    """

    @abstractmethod
    def hear(self, slot: int, tokens: Tensor, scores: Tensor) -> None:
        """The likeliest draws of the row's newest draft token: ids [candidates] and scores (`sampling.leading`)."""


def chain_pacer_of(pacer: Pacer) -> ChainPacer | None:
    """The pacer, if it is a `ChainPacer`."""
    return cast(ChainPacer, pacer) if pacer.candidates else None
