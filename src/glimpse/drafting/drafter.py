"""What a drafter is, what a draft is, and what a drafter learns of its drafts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch import Tensor

from glimpse.attention.plan import RowSpec
from glimpse.cache.pool import PagePool
from glimpse.cache.recall import RecallBudget
from glimpse.cache.rows import RowView
from glimpse.drafting.packed import AnySuccessors, SuccessorBook
from glimpse.errors import GlimpseError

if TYPE_CHECKING:
    from glimpse.drafting.block.contract import BlockHead, Draw
    from glimpse.drafting.suffix.store import SuffixStore
    from glimpse.model import Decoder
    from glimpse.sampling.law import Laws


SCORES = torch.bfloat16
"""In what drafters keep the importance of every position on a device, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Draft tokens of several rows, laid end to end. A chain is a tree whose parents are -1, 0, 1, 2, ...

    Shapes: n nodes in all, R rows; row r owns nodes `offsets[r]` up to (not including) `offsets[r + 1]`.
    """

    tokens: Tensor
    """[n] int64: the token of each node."""
    parents: Tensor
    """[n] int64: each node's parent, counted within its row; -1 is the last committed token. Parents come first."""
    offsets: tuple[int, ...]
    """R + 1 bounds of the rows' nodes; a row may be empty."""
    confidence: Tensor
    """[n] float32: the drafter's own probability of each node."""
    source: Tensor
    """[n] uint8: which source of the drafter made each node."""
    law: Laws | None = None
    """The laws the tokens were really drawn from, one a node; None for a deterministic proposal."""


@dataclass(frozen=True, slots=True)
class Successors:
    """What the target thinks comes next after some tokens it read, from its raw logits: before any processor."""

    tokens: Tensor
    """[n] int64: what was fed in; of a verification the last committed token, then every node, rejected ones too."""
    likeliest: Tensor
    """[n, 8] int64, likeliest first; fewer columns for a vocabulary of fewer ids."""
    chances: Tensor
    """[n, 8] float32: their probabilities; 0 where the logits were not finite."""

    def enter(self, book: SuccessorBook) -> None:
        """Writes them into a book."""
        book.write(self.tokens.numpy(), self.likeliest.numpy(), self.chances.numpy())


@dataclass(slots=True)  # a frozen one takes three times as long to make, and every row makes one a step
class Outcome:
    """What a verification made of one row, after the cut: what drafters and pacers learn from."""

    slot: int
    drafted: int
    """Draft nodes that were verified."""
    accepted: int
    """How many of them were accepted and kept."""
    tokens: list[int]
    """The committed tokens: accepted ones and, unless a stop cut it off, the target's own."""
    importance: Tensor | None = None
    """[layers, kv_heads, queries, length]: attention weights of the verified queries that were kept, oldest first."""
    path: Sequence[int] | None = None
    """The nodes that were accepted and kept, counted within the row; None: the first `accepted` ones (a chain)."""
    successors: AnySuccessors | None = None
    """For a drafter that `wants_successors`."""
    hidden: Tensor | None = None
    """[1 + accepted, hidden], more at a prompt's end: final hidden states of the tokens read and kept, for a
    `BlockRider`."""
    masks: Tensor | None = None
    """[size, hidden]: those of the mask tokens that rode behind the last of them; None where none did."""
    riding: int = 0
    """Mask tokens that rode on the row."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target itself, for drafters that draft with it."""

    decoder: Decoder
    fingerprint: str
    """Which checkpoint it is (`Checkpoint.fingerprint`)."""
    draw: Draw
    """Draws tokens from logits, by the requests' settings."""
    adapter: str | None = None
    """The file of what was trained for it, where one was named."""


@dataclass(frozen=True, slots=True)
class DraftContext:
    """What a drafter may be built from."""

    pool: PagePool
    budget: RecallBudget
    """How much of the context a sparse draft reads."""
    refresh_sets: str | None = None
    """How a refresh layer chooses sets, and which layer it is; None leaves it to the drafter."""
    refresh_layer: int | None = None
    nodes: int = 64
    """The most nodes of a tree (`draft_tokens`, or what the pacer takes where nobody asked)."""
    priced: bool = False
    """The pacer keeps the nodes that pay: a batch of many rows needs no more proposed than could."""
    store: SuffixStore | None = None
    """Texts of earlier requests, for drafters that say `stores`; None: none are kept."""
    target: Target | None = None
    chains_only: bool = False
    """Trees cannot be verified as asked (`exact` "bitwise"); for drafters that can do without."""


class Drafter(Protocol):
    """Proposes tokens for rows; it sees rows, never the engine. Acts on all rows it is given at once.

    A drafter that `needs_forward` hands over what each row feeds into the next forward, which yields one more draft
    token a row; any other hands over whole drafts. Every drafter inherits this class: what only few have is here with
    the value that the others have.
    """

    name: str
    drafts: bool
    """False: every draft is empty."""
    needs_forward: bool
    gives_tree: bool
    """Its drafts may branch; then it also is a `TreeDrafter`."""
    has_law: bool
    """Draft tokens are drawn from a law of the drafter's own (else each is a deterministic proposal)."""
    wants_prompt_topk: bool
    """It is told the successors of the prompt's tokens too; then it also is a `PromptReader`."""
    lossless: bool
    importance: int
    """Of how many accepted queries it wants the attention weights (0: none)."""

    paced_by: str | None = None
    """The only pacer that it goes with."""
    usual_pacer: str = "entropy"
    """The pacer where nobody asks for one."""
    batch_pacer: str | None = None
    """The same where a GPU runs several rows in a step; None: no other one."""
    usual_budget: Mapping[str, int] = MappingProxyType({})
    """What of `RecallBudget` is otherwise where nobody asks."""
    scores: torch.dtype = SCORES
    """In what it keeps the importance of every position on a device."""
    recalls: bool = False
    """It may read a recall set though it hands over whole drafts, so budgets mean something to it."""
    refreshes: bool = False
    """It has a refresh layer, so `refresh_sets` and `refresh_layer` mean something to it."""
    stores: bool = False
    """It takes a store of earlier requests (`DraftContext.store`)."""
    takes_adapter: bool = False
    """It takes an adapter (`Target.adapter`)."""
    needs_adapter: bool = False
    """It cannot do without."""
    mixes: bool = False
    """It also is a `MixedDrafter`."""
    in_step: bool = False
    """Beside what it hands over, a GPU's batch may draft for itself, all rows in step (`Pacer.in_step`)."""
    reads_late: bool = False
    """It also is a `LateDrafter` (`drafting.reader`)."""
    wants_hidden: bool = False
    """Its outcomes carry `hidden` and `masks`; then it also is a `BlockRider`."""

    @property
    def wants_successors(self) -> bool:
        """Whether its outcomes carry `successors`."""
        return False

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it adds to the effective settings of an engine."""
        return {}

    @classmethod
    def build(cls, context: DraftContext) -> Drafter:
        """A drafter for an engine. Raises GlimpseError where nobody wrote one."""
        raise GlimpseError(f"the drafter {cls.__name__} has no build(context)")

    @abstractmethod
    def admit(self, rows: RowView) -> None:
        """Requests have entered these rows; their prompts are in `rows.history`."""

    @abstractmethod
    def ready(self, rows: RowView) -> list[bool]:
        """Whether a draft can begin now; if not, one verification with importance must come first."""

    @abstractmethod
    def plan(self, rows: RowView, room: list[int]) -> list[RowSpec] | Draft:
        """One RowSpec a row, or the draft itself, at most `room[i]` tokens deep for row i; 0 is legal."""

    @abstractmethod
    def absorb(self, rows: RowView, outcomes: list[Outcome]) -> None:
        """What became of these rows' verifications; the history already holds the committed tokens."""

    @abstractmethod
    def retire(self, rows: RowView) -> None:
        """Frees everything kept for these rows."""


class PromptReader(Drafter, Protocol):
    """A drafter that `wants_prompt_topk`: the head runs at every prompt position that a forward reads."""

    def recycle(self, slot: int, successors: Successors) -> None:
        """The successors of the next tokens of a row's prompt; those read from kept pages are left out."""


class TreeDrafter(Drafter, Protocol):
    """A drafter whose drafts may branch: siblings have different tokens.

    A pacer cuts a tree to its first nodes, so the likelier ones should come first (a parent never after its child). The
    engine cuts likewise where pages are short.
    """

    budget: int
    """The most nodes of one row's draft; a plan may use `rows.rows.max_draft`, which is no fewer."""


class SpineDrafter(TreeDrafter, Protocol):
    """A drafter that `needs_forward` and `gives_tree`: forwards draft a chain, the spine, on which branches are hung.

    What `plan` feeds into forwards drafts the spine, token by token. When a row is to be verified, `branch` is asked.
    """

    candidates: int
    """Of how many tokens it hears at every draft token."""

    def hear(self, slot: int, tokens: Tensor, scores: Tensor) -> None:
        """The likeliest draws of the row's newest draft token: ids [candidates] and scores (`sampling.leading`)."""

    def branch(self, rows: RowView, room: list[int]) -> Draft:
        """The whole tree of rows that have drafted, at most `room[i]` tokens deep: their spine first, in its order."""


def spines_of(drafter: Drafter) -> SpineDrafter | None:
    """The drafter, if it is a `SpineDrafter`."""
    return cast(SpineDrafter, drafter) if drafter.needs_forward and drafter.gives_tree else None


class MixedDrafter(Drafter, Protocol):
    """A drafter that `mixes`: it drafts for some rows at once and for others by forwards, and `plan` is asked apart."""

    def at_once(self, rows: RowView) -> list[bool]:
        """Which rows get whole drafts now."""

    def importance_of(self, slot: int) -> int:
        """Of how many accepted queries of a row it wants the attention weights; in the place of `importance`."""

    def recycles(self, slot: int) -> bool:
        """Where it `wants_successors`: whether it wants those of this row."""


def mixed_of(drafter: Drafter) -> MixedDrafter | None:
    """The drafter, if it is a `MixedDrafter`."""
    return cast(MixedDrafter, drafter) if drafter.mixes else None


class BlockRider(Drafter, Protocol):
    """A drafter that `wants_hidden`: its outcomes carry hidden states, and those of the mask tokens of its head."""

    @property
    def head(self) -> BlockHead:
        """Whose masks ride."""

    @abstractmethod
    def rides(self, slot: int) -> bool:
        """Whether its masks may ride on a row now; then the row's outcomes carry `hidden`."""


def rider_of(drafter: Drafter) -> BlockRider | None:
    """The drafter, if it is a `BlockRider`."""
    return cast(BlockRider, drafter) if drafter.wants_hidden else None
