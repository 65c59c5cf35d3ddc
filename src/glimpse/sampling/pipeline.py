"""From logits to laws: every option of every row, applied to all nodes of all rows at once.

The order is: repetition, frequency and presence penalties; logit_bias; masks (suppress_tokens, bad_words, min_tokens,
grammar); temperature; min_p; top_k; top_p. Vocabulary rows that no token of the tokenizer uses never get a law at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glimpse.errors import ArgumentError, GlimpseError
from glimpse.sampling.grammar import Grammars
from glimpse.sampling.law import Laws, entropy_of
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.noise import to_int64
from glimpse.sampling.params import ResolvedParams
from glimpse.sampling.processors import ORDER, Admission, Processor
from glimpse.sampling.resolve import check_ids
from glimpse.sampling.truncation import Cuts, first_width, truncate

_OFF = 1 << 40
"""top_k where it is off: more than any vocabulary."""


class Sampler:
    """The sampling settings and states of `slots` rows, as a struct of arrays.

    `vocab_size` is the width of the logits, `tokens` how many of these ids the tokenizer knows (default: all); the laws
    range over those.
    """

    def __init__(
        self,
        slots: int,
        vocab_size: int,
        *,
        tokens: int | None = None,
        device: torch.device | str = "cpu",
        grammars: Grammars | None = None,
    ) -> None:
        self.vocab_size = vocab_size
        self.vocab = vocab_size if tokens is None else min(tokens, vocab_size)
        self.device = torch.device(device)
        self._grammars = grammars
        self.params: list[ResolvedParams | None] = [None] * slots
        self.seeds = torch.zeros(slots, dtype=torch.int64, device=device)
        """[slots] int64: each row's seed, the low 64 bits of what the user gave."""
        self._processors: list[Processor[Any]] = [kind() for kind in ORDER]
        self._temperature = torch.ones(slots, dtype=torch.float64, device=device)
        self._top_k = torch.full((slots,), _OFF, device=device)
        self._top_p = torch.full((slots,), torch.inf, dtype=torch.float64, device=device)
        self._log_min_p = torch.full((slots,), -torch.inf, dtype=torch.float64, device=device)
        self._width = [0] * slots
        """Ranked tokens to try first; 0: nothing is truncated."""

    def admit(self, row: int, params: ResolvedParams, prompt: Sequence[int], eos: Sequence[int]) -> None:
        """Gives slot `row` to a request with these settings, prompt and end-of-text tokens.

        Raises ArgumentError for token ids outside the vocabulary, and where the options leave no token to write.
        """
        if self.params[row] is not None:
            raise GlimpseError(f"row {row} is still in use; retire it before another request is admitted to it")
        check_ids(params, self.vocab_size)
        self._check_something_left(params, eos)
        self.params[row] = params
        self.seeds[row] = to_int64(params.seed)
        self._set_cuts(row, params)
        request = Admission(params, prompt, eos, self.vocab, self.device, self._grammars)
        for processor in self._processors:
            processor.admit(row, request)

    def retire(self, row: int) -> None:
        """Frees slot `row` and all that is kept for it."""
        self.params[row] = None
        for processor in self._processors:
            processor.retire(row)

    def commit(self, row: int, tokens: Sequence[int]) -> None:
        """Tells the stateful processors that `tokens` became part of the row's output."""
        for processor in self._processors:
            processor.commit(row, tokens)

    def laws(self, logits: Tensor, nodes: Nodes) -> Laws:
        """The laws of N nodes from logits [N, vocab_size]; the logits are left as they are."""
        scores = self._scores(logits, nodes)
        laws = self._truncated(scores, nodes)
        return Laws(laws.logp, laws.ids, laws.greedy, laws.vocab, lambda: entropy_of(scores))

    def seeds_of(self, nodes: Nodes) -> Tensor:
        """[N] int64: the seed of each node's row."""
        return self.seeds[nodes.row]

    def _params_of(self, row: int) -> ResolvedParams:
        params = self.params[row]
        if params is None:
            raise GlimpseError(f"row {row} has no request; admit one before asking for its laws")
        return params

    def _set_cuts(self, row: int, params: ResolvedParams) -> None:
        # A greedy row is top_k = 1 at any temperature, ties included; nothing else need know about it.
        greedy = params.greedy
        top_k = 1 if greedy else params.top_k if params.top_k < self.vocab else 0
        self._temperature[row] = 1.0 if greedy else params.temperature
        self._top_k[row] = top_k or _OFF
        self._top_p[row] = params.top_p if params.top_p < 1 and not greedy else torch.inf
        self._log_min_p[row] = torch.tensor(0.0 if greedy else params.min_p, dtype=torch.float64).log()
        cuts = top_k or params.top_p < 1 or params.min_p > 0
        self._width[row] = first_width(top_k) if cuts else 0

    def _check_something_left(self, params: ResolvedParams, eos: Sequence[int]) -> None:
        gone = {*params.suppress_tokens, *(word[-1] for word in params.bad_words)}
        if params.min_tokens:
            gone |= {*eos, *params.stop_token_ids}
        if sum(token < self.vocab for token in gone) >= self.vocab:
            raise ArgumentError("suppress_tokens, bad_words and min_tokens together must leave a token to write")

    def _scores(self, logits: Tensor, nodes: Nodes) -> Tensor:
        """[N, vocab] processed logits: the caller's own where no processor is at work, else a copy."""
        scores = logits[:, : self.vocab].float()
        at_work = [(processor, served) for processor in self._processors if (served := processor.served(nodes))]
        if at_work and scores.data_ptr() == logits.data_ptr():
            scores = scores.clone()
        for processor, served in at_work:
            processor.apply(scores, nodes, served)
        return scores

    def _truncated(self, scores: Tensor, nodes: Nodes) -> Laws:
        flags = [self._params_of(row).greedy for row in nodes.rows]
        if all(flags):
            return Laws.point(scores.argmax(dim=1), self.vocab)
        greedy = torch.tensor(flags, device=scores.device)
        widths = [self._width[row] for row in nodes.rows]
        cut = [node for node, width in enumerate(widths) if width]
        index = torch.tensor(cut, dtype=torch.int64, device=scores.device)
        if len(cut) == len(widths):
            ids, logp = truncate(scores, self._cuts(nodes.row), max(widths))
            return Laws(logp, ids, greedy, self.vocab)
        dense = self._untruncated(scores, nodes)
        if cut:
            ids, logp = truncate(scores[index], self._cuts(nodes.row[index]), max(widths))
            dense[index] = Laws(logp, ids, greedy[index], self.vocab).to_dense().logp
        return Laws(dense, None, greedy, self.vocab)

    def _cuts(self, row: Tensor) -> Cuts:
        return Cuts(self._temperature[row], self._top_k[row], self._top_p[row], self._log_min_p[row])

    def _untruncated(self, scores: Tensor, nodes: Nodes) -> Tensor:
        """[N, vocab] float32 log-probabilities at each row's temperature."""
        if all(self._params_of(row).temperature == 1 for row in set(nodes.rows)):
            return torch.log_softmax(scores, dim=1)
        # The peak goes first, so that a temperature near 0 cannot overflow.
        temperature = self._temperature[nodes.row].to(scores.dtype).unsqueeze(1)
        return torch.log_softmax((scores - scores.amax(dim=1, keepdim=True)).div_(temperature), dim=1)
