"""Laws: what the next token of each of N nodes may be, and how likely. And `pick`, the one way to draw from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from glimpse.errors import GlimpseError
from glimpse.sampling.blocks import blocks
from glimpse.sampling.noise import Role, keys, log_exponential_of


@dataclass(frozen=True, eq=False)
class Laws:
    """N next-token laws over a vocabulary of `vocab` tokens, dense or truncated to candidates.

    A greedy row is a point mass: log-probability 0 on its token, -inf elsewhere. Methods return new tensors.
    """

    logp: Tensor
    """[N, vocab] float32 normalised log-probabilities; or [N, C] of the candidates, -inf where a row has fewer."""
    ids: Tensor | None
    """[N, C] int64 ids of the candidates, each once a row (padding may hold any id); None: the laws are dense."""
    greedy: Tensor
    """[N] bool: rows that are a point mass because their request decodes greedily."""
    vocab: int
    entropy_source: Callable[[], Tensor] | None = field(default=None, repr=False, compare=False)
    """Computes `entropy`; holds on to the logits until then."""

    @classmethod
    def dense(cls, logp: Tensor) -> Laws:
        """Dense laws of normalised log-probabilities [N, vocab]."""
        greedy = torch.zeros(logp.shape[0], dtype=torch.bool, device=logp.device)
        return cls(logp, None, greedy, logp.shape[1])

    @classmethod
    def point(cls, tokens: Tensor, vocab: int) -> Laws:
        """Point masses on `tokens` [N]: the laws of a deterministic proposal, or of a greedy choice."""
        logp = torch.zeros(tokens.shape[0], 1, device=tokens.device)
        return cls(logp, tokens.unsqueeze(1), torch.ones_like(tokens, dtype=torch.bool), vocab)

    def __len__(self) -> int:
        return self.logp.shape[0]

    @cached_property
    def entropy(self) -> Tensor:
        """[N] float32, nats: the entropy of softmax(processed logits) at temperature 1, before any truncation.

        Computed when first read, from the logits the laws were made of: read it before their buffer is used again.
        Raises GlimpseError when the laws do not know their logits (made by hand, or `slim`).
        """
        if self.entropy_source is None:
            raise GlimpseError("these laws do not know the logits they came from, so they have no entropy")
        return self.entropy_source()

    def slim(self) -> Laws:
        """The same laws without the logits that `entropy` needs: for keeping a draft's laws until they are verified."""
        return Laws(self.logp, self.ids, self.greedy, self.vocab)

    def probs(self) -> Tensor:
        """[N, vocab] float32 probabilities."""
        if self.ids is None:
            return self.logp.exp()
        # Added, not written: padding may name an id that is a real candidate elsewhere in its row.
        zeros = torch.zeros(len(self), self.vocab, device=self.logp.device)
        return zeros.scatter_add_(1, self.ids, self.logp.exp())

    def logp_of(self, tokens: Tensor) -> Tensor:
        """[N] float32: the log-probability of tokens[i] under law i; -inf for an id outside the law or vocabulary."""
        if self.ids is None:
            inside = (tokens >= 0) & (tokens < self.vocab)
            found = self.logp.gather(1, tokens.clamp(0, self.vocab - 1).unsqueeze(1)).squeeze(1)
            return found.masked_fill(~inside, -torch.inf)
        return self.logp.masked_fill(self.ids != tokens.unsqueeze(1), -torch.inf).amax(1)

    def select(self, rows: Tensor | slice) -> Laws:
        """The laws of `rows`: indices [M], a mask [N] or a slice."""
        ids = None if self.ids is None else self.ids[rows]
        source = None if self.entropy_source is None else lambda: self.entropy[rows]
        return Laws(self.logp[rows], ids, self.greedy[rows], self.vocab, source)

    def to_dense(self) -> Laws:
        """The same laws over the whole vocabulary."""
        if self.ids is None:
            return self
        logp = torch.full((len(self), self.vocab), -torch.inf, device=self.logp.device)
        logp.scatter_reduce_(1, self.ids, self.logp, "amax")
        return Laws(logp, None, self.greedy, self.vocab, self.entropy_source)

    @staticmethod
    def cat(parts: Sequence[Laws]) -> Laws:
        """The laws of all `parts`, in order; dense when any of them is."""
        if len({part.vocab for part in parts}) != 1:
            raise GlimpseError(f"laws over different vocabularies cannot be joined: {[part.vocab for part in parts]}")
        if any(part.ids is None for part in parts):
            parts = [part.to_dense() for part in parts]
        known = all(part.entropy_source is not None for part in parts)
        return Laws(
            _stack([part.logp for part in parts], -torch.inf),
            None if parts[0].ids is None else _stack([part.ids for part in parts if part.ids is not None], 0),
            torch.cat([part.greedy for part in parts]),
            parts[0].vocab,
            (lambda: torch.cat([part.entropy for part in parts])) if known else None,
        )


def _stack(blocks: list[Tensor], padding: float) -> Tensor:
    """Blocks [n_i, C_i] under one another, widened to the widest with `padding`."""
    width = max(block.shape[1] for block in blocks)
    return torch.cat([torch.nn.functional.pad(block, (0, width - block.shape[1]), value=padding) for block in blocks])


def pick(laws: Laws, seeds: Tensor, positions: Tensor, role: Role, salt: Tensor | int = 0) -> Tensor:
    """[N] int64: one token of each law, argmax over its candidates of log p + Gumbel noise (the Gumbel-max trick).

    `seeds` and `positions` [N] int64, `salt` one number or [N] int64. The noise of a token id does not depend on the
    other candidates, so two laws that were truncated differently still share their noise. Ties go to the lowest id.
    A law with NaN in it gives an arbitrary legal id: `nonfinite_rows` is the check.
    """
    if laws.ids is not None and laws.ids.shape[1] == 1:
        return laws.ids[:, 0].clone()
    key = keys(seeds, positions, role, salt).unsqueeze(1)
    if laws.ids is not None:
        return _lowest_of_best(laws.logp - log_exponential_of(key, laws.ids), laws.ids, laws.vocab)
    ids = torch.arange(laws.vocab, device=laws.logp.device)
    # argmax returns the first of equal values, which in a dense row is the lowest id.
    return _by_blocks(laws.logp, lambda part, logp: torch.argmax(logp - log_exponential_of(key[part], ids), dim=1))


def _by_blocks(rows: Tensor, function: Callable[[slice, Tensor], Tensor]) -> Tensor:
    """`function` of blocks of rows [n, V], joined."""
    return torch.cat([function(part, rows[part]) for part in blocks(rows.shape[0], rows.shape[1], rows.device)])


def _lowest_of_best(scores: Tensor, ids: Tensor, vocab: int) -> Tensor:
    best = scores.amax(dim=1, keepdim=True)
    return ids.masked_fill(scores != best, vocab).amin(dim=1).clamp_max_(vocab - 1)


def entropy_of(scores: Tensor) -> Tensor:
    """[N] float32: the entropy in nats of softmax(scores [N, V]); scores may hold -inf."""
    return _by_blocks(scores, lambda _, block: _entropy(torch.log_softmax(block.float(), dim=1)))


def _entropy(logp: Tensor) -> Tensor:
    # The clamp keeps 0 * -inf out of the sum; e^-1e4 is 0 in float32 all the same.
    return (logp.exp() * logp.clamp_min(-1e4)).sum(dim=1).neg_()
