"""Tokens that must not come next: suppressed ones, ends before min_tokens, the last token of a bad word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import torch
from torch import Tensor

from glimpse.sampling.nodes import Nodes
from glimpse.sampling.processors.base import Admission, Processor, pairs


def _tensor(ids: Sequence[int], request: Admission) -> Tensor:
    inside = sorted({token for token in ids if token < request.vocab})
    return torch.tensor(inside, dtype=torch.int64, device=request.device)


def _forbid(scores: Tensor, nodes: list[int], ids: list[Tensor]) -> None:
    """Sets the scores of ids[i] at nodes[i] to -inf."""
    if nodes:
        scores.index_put_(pairs(nodes, ids), scores.new_tensor(-torch.inf))


class Suppress(Processor[Tensor]):
    """suppress_tokens, and bad words of one token: never."""

    def state_of(self, request: Admission) -> Tensor | None:
        """The forbidden ids, if any."""
        single = [word[0] for word in request.params.bad_words if len(word) == 1]
        ids = _tensor([*request.params.suppress_tokens, *single], request)
        return ids if ids.numel() else None

    def apply(self, scores: Tensor, nodes: Nodes, served: list[int]) -> None:
        """Forbids them at every node."""
        _forbid(scores, served, [self.states[nodes.rows[node]] for node in served])


class MinTokens(Processor[tuple[int, Tensor]]):
    """min_tokens: no end-of-text token and no stop token before that many output tokens, ignore_eos or not."""

    def state_of(self, request: Admission) -> tuple[int, Tensor] | None:
        """How many tokens, and the ids that end an output."""
        params = request.params
        ids = _tensor([*request.eos, *params.stop_token_ids], request)
        return (params.min_tokens, ids) if params.min_tokens and ids.numel() else None

    def apply(self, scores: Tensor, nodes: Nodes, served: list[int]) -> None:
        """Forbids ends at nodes that come too early."""
        early = [node for node in served if nodes.generated[node] < self.states[nodes.rows[node]][0]]
        _forbid(scores, early, [self.states[nodes.rows[node]][1] for node in early])


@dataclass(slots=True)
class Banned:
    """Bad words of several tokens, and the end of the committed text."""

    words: tuple[tuple[int, ...], ...]
    reach: int
    """How many tokens before the next one can matter."""
    tail: list[int] = field(default_factory=list)

    def extend(self, tokens: Sequence[int]) -> None:
        """Moves the tail over new committed tokens."""
        self.tail = [*self.tail, *tokens][-self.reach :]

    def completed(self, prefix: list[int]) -> Iterator[int]:
        """The tokens that would complete a bad word after `prefix`."""
        return (word[-1] for word in self.words if tuple(prefix[len(prefix) - len(word) + 1 :]) == word[:-1])


class BadWords(Processor[Banned]):
    """Bad words of several tokens: the last one is forbidden where the text before it, prompt included, ends with the
    others. Words of one token are `Suppress`'s.
    """

    def state_of(self, request: Admission) -> Banned | None:
        """The words, and the prompt's end."""
        words = tuple(word for word in request.params.bad_words if len(word) > 1 and word[-1] < request.vocab)
        if not words:
            return None
        banned = Banned(words, max(len(word) for word in words) - 1)
        banned.extend(request.prompt[-banned.reach :])
        return banned

    def commit(self, row: int, tokens: Sequence[int]) -> None:
        """Notes the new end of the text."""
        if row in self.states:
            self.states[row].extend(tokens)

    def apply(self, scores: Tensor, nodes: Nodes, served: list[int]) -> None:
        """Forbids what would complete a bad word."""
        found: dict[int, list[int]] = {}
        for node in served:
            state = self.states[nodes.rows[node]]
            backwards = islice(chain(nodes.ancestors(node), reversed(state.tail)), state.reach)
            completed = list(state.completed(list(backwards)[::-1]))
            if completed:
                found[node] = completed
        _forbid(scores, list(found), [torch.tensor(ids, device=scores.device) for ids in found.values()])
