"""The drafters of the case list by their names there: LOOKUP, ORACLE, NOISY(p), FIXED, EMPTY, SELF.

All but two are the doubles of `tests.doubles`. LOOKUP is the drafter `lookup`. SELF, "the draft model is the target",
is the drafter `sparse` with a budget of the whole context: every draft step then is a step of the target itself.
"""

from __future__ import annotations

from tests.doubles import AlwaysWrong, Empty, Fixed, HostDrafter, Noisy, Oracle, RandomPacer, Texts, with_parts

from glimpse.llm import LLM

__all__ = [
    "NAMES",
    "AlwaysWrong",
    "Empty",
    "Fixed",
    "HostDrafter",
    "Noisy",
    "Oracle",
    "RandomPacer",
    "drafting",
    "lookup",
    "self_drafting",
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
