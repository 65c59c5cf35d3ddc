"""The drafters of the case list by their names there: LOOKUP, ORACLE, NOISY(p), FIXED, EMPTY, SELF.

All but two are the doubles of `tests.doubles`. LOOKUP is the drafter `lookup`. SELF, "the draft model is the target",
is the drafter `sparse` with a budget of the whole context: every draft step then is a step of the target itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tests.doubles import AlwaysWrong, Empty, Fixed, HostDrafter, Noisy, Oracle, RandomPacer, Texts, with_parts

from glimpse.acceptance import Acceptance, NodeNoise
from glimpse.acceptance.rule import Accepted
from glimpse.drafting.drafter import Draft
from glimpse.engine.engine import Engine
from glimpse.llm import LLM
from glimpse.sampling import Laws

__all__ = [
    "NAMES",
    "AlwaysWrong",
    "Empty",
    "Fixed",
    "HostDrafter",
    "Noisy",
    "Oracle",
    "RandomPacer",
    "Round",
    "Watched",
    "drafting",
    "lookup",
    "self_drafting",
    "watched",
    "watched_steps",
    "with_parts",
]

NAMES = ("LOOKUP", "ORACLE", "NOISY", "FIXED", "EMPTY", "SELF")
"""What `drafting` knows."""
JUNK = ([5, 6, 5, 6, 7], [9], [], [10] * 20)
"""What FIXED proposes where a case does not say: of all lengths, hardly ever right."""


def drafting(llm: LLM, name: str, texts: Texts = (), draft_tokens: int = 4, p: float = 0.3, **options: object) -> LLM:
    """A variant of `llm` with one of the drafters `NAMES` and always `draft_tokens` tokens a draft.

    `texts` are the prompts with the outputs that ORACLE and NOISY replay; `p` is NOISY's.
    """
    options = {"draft_tokens": draft_tokens} | options
    vocab = llm.spec.vocab_size
    makers = {
        "ORACLE": lambda: with_parts(llm, Oracle(texts), **options),
        "NOISY": lambda: with_parts(llm, Noisy(texts, p, vocab), **options),
        "FIXED": lambda: with_parts(llm, Fixed(*JUNK), **options),
        "EMPTY": lambda: with_parts(llm, Empty(), **options),
        "LOOKUP": lambda: lookup(llm, **options),
        "SELF": lambda: self_drafting(llm, **options),
    }
    return makers[name]()


def lookup(llm: LLM, draft_tokens: int = 4, **options: object) -> LLM:
    """LOOKUP."""
    return llm.variant(**{"drafter": "lookup", "pacer": "fixed", "draft_tokens": draft_tokens} | options)


def self_drafting(llm: LLM, draft_tokens: int = 4, **options: object) -> LLM:
    """SELF."""
    fixed = {"drafter": "sparse", "budget": 1.0, "pacer": "fixed", "draft_tokens": draft_tokens}
    return llm.variant(**fixed | options)


@dataclass(frozen=True)
class Round:
    """What one row's verification was given and what it gave: chains only."""

    seed: int
    position: int
    """Of the first token judged; the prompt's first token has 0."""
    draft: list[int]
    emitted: list[int]
    """Accepted tokens and the target's own, before any cut."""
    laws: Laws
    """One more than there are drafts."""
    proposal: Laws | None
    """What the drafter says that its tokens were drawn from."""

    @property
    def accepted(self) -> int:
        """Draft tokens accepted."""
        return len(self.emitted) - 1


class Watched:
    """An acceptance rule that writes down its rounds."""

    def __init__(self, rule: Acceptance) -> None:
        self.rule, self.rounds = rule, list[Round]()
        for name in ("name", "lossless", "draft_role", "needs_law", "trees"):
            setattr(self, name, getattr(rule, name))

    def accept(self, draft: Draft, laws: Laws, noise: NodeNoise) -> Accepted:
        accepted = self.rule.accept(draft, laws, noise)
        tokens, whole = draft.tokens.tolist(), range(len(laws))
        for row, ((start, end), emitted) in enumerate(
            zip(pairwise(draft.offsets), accepted.token_lists(), strict=True)
        ):
            first, own = start + row, slice(start, end)
            judges = laws.select(noise.positions.new_tensor(whole[first : end + row + 1]))
            proposal = None if draft.law is None else draft.law.select(noise.positions.new_tensor(whole[own]))
            where = int(noise.seeds[first]), int(noise.positions[first])
            self.rounds.append(Round(*where, tokens[own], emitted, judges, proposal))
        return accepted

    @property
    def drafted(self) -> Sequence[Round]:
        """The rounds that had a draft."""
        return [made for made in self.rounds if made.draft]


def watched(llm: LLM) -> tuple[LLM, Watched]:
    """`llm` itself (not its variants) with a watched acceptance rule, and the rule."""
    rule = Watched(llm._engine.parts.acceptance)
    llm._engine = Engine(replace(llm._engine.parts, acceptance=rule), llm.options)
    return llm, rule


def watched_steps(llm: LLM) -> list[list[tuple[int, int, int]]]:
    """Has every step of `llm` write down its verifying and plain rows (no prompts): slot, draft length, tokens fed."""
    planner, rows, steps = llm._engine._planner, llm._engine.parts.rows, []
    plan = planner.plan

    def watching(running: dict) -> object:
        made = plan(running)
        fed = [(spec.slot, int(rows.draft_len[spec.slot]), spec.count) for spec in made.full
               if int(rows.committed_len[spec.slot] - rows.verified_len[spec.slot]) == 1]  # fmt: skip
        steps.append(fed)
        return made

    planner.plan = watching
    return steps
