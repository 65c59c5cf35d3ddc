"""After a forward: draft rows gain a token; full rows are verified and accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from glimpse.acceptance import Acceptance, NodeNoise
from glimpse.acceptance.rule import first_laws
from glimpse.cache.rows import Rows
from glimpse.drafting.drafter import Draft
from glimpse.errors import GlimpseError
from glimpse.sampling.finite import nonfinite_rows
from glimpse.sampling.law import Laws, pick
from glimpse.sampling.leading import leading
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.noise import draft_salt
from glimpse.sampling.pipeline import Sampler


class Ears(Protocol):
    """Who is told what else might have been drafted."""

    candidates: int
    """Of how many tokens."""

    def hear(self, slot: int, tokens: Tensor, scores: Tensor) -> None:
        """The likeliest draws of the row's newest draft token: ids [candidates] and scores (`sampling.leading`)."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification yields for the rows given, in order."""

    draft: Draft
    paths: list[list[int]]
    """The accepted draft nodes of each row."""
    tokens: list[list[int]]
    """Each row's accepted tokens and the target's own, before any cut."""
    relaxed: list[int]
    """How many of them a lossy rule let pass; 0s of an exact one."""
    broken: dict[int, GlimpseError]
    """Slots whose target logits were not finite; their tokens mean nothing."""


class DraftBook:
    """Draws draft tokens, and keeps the laws they were drawn from while an acceptance rule will need them."""

    def __init__(
        self, rows: Rows, sampler: Sampler, acceptance: Acceptance, *, has_law: bool, ears: Sequence[Ears] = ()
    ) -> None:
        """`ears` are told of each token's runners-up."""
        self._rows, self._sampler, self._acceptance = rows, sampler, acceptance
        self._keeps_laws, self._ears = acceptance.needs_law and has_law, ears
        self._laws: dict[int, list[Laws]] = {}

    def extend(self, slots: list[int], logits: Tensor) -> list[int]:
        """Draws one more draft token for each row from logits [R, vocab]; returns the rows whose logits are not finite.

        Those get no token: their draft ends where it is.
        """
        rows = self._rows
        drafted = [draft_tokens(rows, slot) for slot in slots]
        lengths = [int(rows.committed_len[slot]) for slot in slots]
        outputs = [length - int(rows.prompt_len[slot]) for slot, length in zip(slots, lengths, strict=True)]
        nodes = Nodes.drafting(slots, lengths, outputs, drafted)
        laws = self._sampler.laws(logits, nodes)
        role = self._acceptance.draft_role
        salt = draft_salt(role, torch.tensor(lengths))
        tokens = pick(laws, self._sampler.seeds_of(nodes), nodes.position, role, salt)
        broken = nonfinite_rows(logits, nodes)
        if self._ears:
            noise = (self._sampler.seeds_of(nodes), nodes.position, role, salt)
            most = max(ear.candidates for ear in self._ears)
            for slot, *found in zip(slots, *leading(laws, logits, *noise, count=most), strict=True):
                if slot not in broken:
                    for ear in self._ears:
                        ear.hear(slot, *(each[: ear.candidates] for each in found))
        facts = zip(slots, tokens.tolist(), laws.logp_of(tokens).exp().tolist(), laws.entropy.tolist(), strict=True)
        for index, (slot, token, chance, entropy) in enumerate(facts):
            if slot not in broken:
                rows.add_draft(slot, token, chance, entropy)
                self._keep(slot, laws, index)
        return list(broken)

    def draft(self, slots: list[int]) -> Draft:
        """The rows' drafts as one, with their laws where they are kept."""
        tokens = [draft_tokens(self._rows, slot) for slot in slots]
        laws = [law for slot in slots for law in self._laws.pop(slot, [])]
        pairs = list(zip(slots, tokens, strict=True))
        confidence = [self._rows.draft_confidence[slot, : len(row)] for slot, row in pairs]
        flat = torch.tensor([token for row in tokens for token in row], dtype=torch.int64)
        return Draft(
            tokens=flat,
            parents=torch.cat([self._rows.draft_parents[slot, : len(row)] for slot, row in pairs]),
            offsets=tuple(accumulate((len(row) for row in tokens), initial=0)),
            confidence=torch.cat(confidence),
            source=torch.zeros(len(flat), dtype=torch.uint8),
            law=Laws.cat(laws) if laws else None,
        )

    def forget(self, slot: int) -> None:
        """Drops what is kept for a row."""
        self._laws.pop(slot, None)

    def _keep(self, slot: int, laws: Laws, index: int) -> None:
        if self._keeps_laws:
            self._laws.setdefault(slot, []).append(laws.slim().select(torch.tensor([index])))


def verify(
    rows: Rows, sampler: Sampler, acceptance: Acceptance, draft: Draft, slots: list[int], logits: Tensor
) -> Verified:
    """Judges the rows' drafts by the target's logits [nodes, vocab]: one row after the last committed token, then one
    after each draft token."""
    lengths = [int(rows.committed_len[slot]) for slot in slots]
    outputs = [length - int(rows.prompt_len[slot]) for slot, length in zip(slots, lengths, strict=True)]
    nodes = Nodes.verifying(slots, lengths, outputs, draft.tokens.tolist(), draft.parents.tolist(), draft.offsets)
    laws = sampler.laws(logits, nodes)
    accepted = acceptance.accept(draft, laws, NodeNoise(sampler.seeds_of(nodes), nodes.position))
    paths = accepted.paths()
    broken = nonfinite_rows(logits, nodes)
    if broken:
        # What lies behind a rejected draft token plain decoding would never have seen.
        broken = nonfinite_rows(logits.where(_visited(draft.offsets, paths)[:, None], 0.0), nodes)
    relaxed = list(accepted.relaxed) or [0] * len(paths)
    return Verified(draft, paths, accepted.token_lists(), relaxed, broken)


def _visited(offsets: Sequence[int], paths: list[list[int]]) -> Tensor:
    """[n + R] bool: the target laws that tokens were picked from."""
    visited = torch.zeros(offsets[-1] + len(paths), dtype=torch.bool)
    for first, path in zip(first_laws(offsets), paths, strict=True):
        visited[[first, *(first + 1 + node for node in path)]] = True
    return visited


def draft_tokens(rows: Rows, slot: int) -> list[int]:
    """The draft of a row, node after node."""
    begin = int(rows.committed_len[slot])
    tokens: list[int] = rows.tokens[slot, begin : begin + int(rows.draft_len[slot])].tolist()
    return tokens
