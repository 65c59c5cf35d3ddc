"""Mask tokens on the rows of a step, and what came of them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from glimpse.acceptance import Acceptance
from glimpse.attention.plan import MaskGroups, RowSpec
from glimpse.cache.rows import Rows, RowView
from glimpse.drafting.drafter import BlockRider, Outcome
from glimpse.engine.forward import ForwardResult
from glimpse.pacing.pacer import Pacer
from glimpse.pacing.riding import GroupPricer
from glimpse.sampling.law import pick
from glimpse.sampling.nodes import Nodes
from glimpse.sampling.noise import draft_salt
from glimpse.sampling.pipeline import Sampler


class Riders:
    """Puts a block drafter's mask groups on rows, and hands back the hidden states of what was kept."""

    def __init__(self, rows: Rows, drafter: BlockRider, pricer: GroupPricer, pacer: Pacer) -> None:
        self._rows, self._drafter, self._pricer, self._pacer = rows, drafter, pricer, pacer

    def board(self, specs: list[RowSpec], learning: set[int]) -> list[RowSpec]:
        """The full rows of a step, those of the slots in `learning` with what the drafter wants of them."""
        path, size = self._drafter.head.path, self._drafter.head.size
        chosen = [spec for spec in specs if spec.slot in learning and self._drafter.rides(spec.slot)]
        drafted = [int(self._rows.draft_len[spec.slot]) for spec in chosen]
        groups: list[tuple[int, ...]] = [()] * len(chosen)
        if path is not None and chosen and not self._stays_plain(chosen):
            said = [
                self._rows.draft_confidence[spec.slot, :count].double().numpy()
                for spec, count in zip(chosen, drafted, strict=True)
            ]
            groups = self._pricer.wanted(said, [spec.stop for spec in chosen], size)
        riding = {}
        for spec, count, own in zip(chosen, drafted, groups, strict=True):
            behind = tuple(spec.count - 1 - count + accepted for accepted in own)
            masks = MaskGroups(path, size, behind) if path is not None and behind else None
            riding[spec.slot] = replace(spec, masks=masks, hidden=True)
        return [riding.get(spec.slot, spec) for spec in specs]

    def _stays_plain(self, specs: list[RowSpec]) -> bool:
        """Whether the pacer still has to learn what a plain step of these rows costs: then nothing rides on it."""
        return all(spec.count == 1 for spec in specs) and self._pacer.plain_is_unknown

    def alight(self, outcome: Outcome, spec: RowSpec, result: ForwardResult, place: int) -> Outcome:
        """The outcome of the row at `place` of the batch, with the hidden states of what it keeps."""
        hidden, groups = result.hidden[place], result.groups[place]
        if hidden is None:
            return outcome
        if outcome.drafted:
            self._pricer.observe(outcome.accepted)
        last = spec.count - 1 - outcome.drafted + outcome.accepted
        masks = None
        if groups is not None and spec.masks is not None and last in spec.masks.behind:
            masks = groups[spec.masks.behind.index(last)]
        riding = spec.masks.count if spec.masks is not None else 0
        return replace(outcome, hidden=hidden[: last + 1], masks=masks, riding=riding)


class BlockDraws:
    """Draws the tokens of blocks as the requests would: the draft's noise, settings and processors.

    A place knows nothing of the draft tokens before it, so penalties see the committed text alone; that costs
    acceptance where they matter, never exactness: every rule takes a block's tokens for proposals without a law.
    """

    def __init__(self, sampler: Sampler, acceptance: Acceptance) -> None:
        self._sampler, self._acceptance = sampler, acceptance

    def __call__(self, rows: RowView, logits: Tensor) -> tuple[Tensor, Tensor]:
        """See `glimpse.drafting.block.contract.Draw`."""
        count, size = logits.shape[:2]
        flat = logits.flatten(0, 1).cpu()
        lengths, prompts = rows.column(rows.rows.committed_len), rows.column(rows.rows.prompt_len)
        written = [length - prompt for length, prompt in zip(lengths, prompts, strict=True)]
        places = [(row, place) for row in range(count) for place in range(size)]
        nodes = Nodes.plain(
            [rows.slots[row] for row, _ in places],
            [lengths[row] + place for row, place in places],
            [written[row] + place for row, place in places],
        )
        laws = self._sampler.laws(flat, nodes)
        role = self._acceptance.draft_role
        salt = draft_salt(role, torch.tensor([lengths[row] for row, _ in places]))
        tokens = pick(laws, self._sampler.seeds_of(nodes), nodes.position, role, salt)
        # A greedy law is sure of its token, whatever the head thinks.
        said = torch.log_softmax(flat, -1).gather(1, tokens[:, None]).squeeze(1)
        chances = torch.where(laws.greedy, said, laws.logp_of(tokens)).exp()
        return tokens.view(count, size), chances.view(count, size)
