"""What follows a forward: drafts grow, verified rows commit, and everyone learns from one cut list."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from glimpse.acceptance.rule import trusts
from glimpse.attention import RowSpec
from glimpse.cache.compaction import keep_path
from glimpse.cache.rows import RowView
from glimpse.drafting.drafter import Outcome, PromptReader, Successors, mixed_of, spines_of
from glimpse.engine.commit import Commit, Taken
from glimpse.engine.draft_check import tree_depth
from glimpse.engine.forward import ForwardResult
from glimpse.engine.logprobs import record_logprobs, record_prompt_logprobs
from glimpse.engine.parts import Parts
from glimpse.engine.phases import StepPlan
from glimpse.engine.request import Progress, Request
from glimpse.engine.riding import Riders
from glimpse.engine.sampling_step import DraftBook, Verified, draft_tokens, verify
from glimpse.engine.successors import successors_of
from glimpse.errors import GlimpseError
from glimpse.pacing.pacer import chain_pacer_of


class Settler:
    """Turns the results of forwards into drafts and output of the `running` requests (by slot)."""

    def __init__(self, parts: Parts, running: dict[int, Request], riders: Riders | None = None) -> None:
        self._parts, self._running, self._riders = parts, running, riders
        self.stuck: list[int] = []
        """Rows whose last draft made the target's logits not finite: a plain step must show whether it is the draft."""
        drafter = parts.drafter
        ears = [part for part in (spines_of(drafter), chain_pacer_of(parts.pacer)) if part is not None]
        self._book = DraftBook(parts.rows, parts.sampler, parts.acceptance, has_law=drafter.has_law, ears=ears)

    def extend_drafts(self, plan: StepPlan, result: ForwardResult) -> list[int]:
        """One more draft token for each draft row; returns the rows whose drafts cannot go on."""
        begin, end = plan.bounds
        slots = [spec.slot for spec in plan.draft]
        for slot in slots:
            self._running[slot].speculation.draft_steps += 1
        return self._book.extend(slots, torch.cat(result.logits[begin:end])) if slots else []

    def trust(self, plan: StepPlan, result: ForwardResult) -> list[Progress]:
        """Where drafts are trusted: makes output of what the draft rows have just drawn."""
        if not trusts(self._parts.acceptance):
            return []
        pairs = zip(plan.draft, result.logits[slice(*plan.bounds)], strict=True)
        return [self._trust(spec.slot, own) for spec, own in pairs if int(self._parts.rows.draft_len[spec.slot])]

    def _trust(self, slot: int, logits: Tensor) -> Progress:
        """Commits one row's draft token; what its step wrote into the cache stays there."""
        parts, request, tokens = self._parts, self._running[slot], draft_tokens(self._parts.rows, slot)
        commit = keep_trusted(request, tokens)
        kept = list(commit.token_ids)
        record_logprobs(request, logits, [0], kept)
        parts.rows.commit(slot, kept, int(parts.rows.committed_len[slot]))
        parts.sampler.commit(slot, kept)
        return Progress(request, commit, len(kept))

    def commit(self, plan: StepPlan, result: ForwardResult, step: int) -> list[Progress]:
        """Judges the full rows, and cuts tokens, text, logprobs, statistics and cache of each to what is kept."""
        for spec, own in zip(plan.prefill, result.logits, strict=False):
            record_prompt_logprobs(self._running[spec.slot], spec.start, own)
            self._parts.rows.verified_len[spec.slot] = spec.stop
        if self._parts.drafter.wants_prompt_topk and plan.prefill:
            reader = cast(PromptReader, self._parts.drafter)
            for spec, read in zip(
                plan.prefill, successors_of(self._parts.rows, plan.prefill, result.logits), strict=True
            ):
                reader.recycle(spec.slot, read)
        self.stuck = []
        if not plan.full:
            return []
        logits, importance = result.logits[plan.bounds[1] :], result.importance[plan.bounds[1] :]
        verified, judged = self._judge(plan.full, logits)
        progress, outcomes = [], []
        successors = self._successors(plan.full, logits)
        for index, spec in enumerate(plan.full):
            request = self._running[spec.slot]
            if spec.slot in verified.broken:
                progress += self._give_up(request, spec.slot, f"step {step}: {verified.broken[spec.slot]}")
                continue
            made, outcome = _cut(request, spec, verified, index, judged[index], importance[index])
            progress.append(made)
            if self._riders is not None:
                outcome = self._riders.alight(outcome, spec, result, plan.bounds[1] + index)
            outcomes.append(replace(outcome, successors=successors.get(spec.slot)))
        self._learn(outcomes)
        return progress

    def _successors(self, specs: list[RowSpec], logits: list[Tensor]) -> dict[int, Successors]:
        """By slot, of the rows whose logits the drafter wants."""
        drafter, mixed = self._parts.drafter, mixed_of(self._parts.drafter)
        if not drafter.wants_successors:
            return {}
        own = [at for at, spec in enumerate(specs) if mixed is None or mixed.recycles(spec.slot)]
        wanted = [specs[at] for at in own]
        found = successors_of(self._parts.rows, wanted, [logits[at] for at in own])
        return {spec.slot: each for spec, each in zip(wanted, found, strict=True)}

    def _give_up(self, request: Request, slot: int, reason: str) -> list[Progress]:
        """Drops the draft of a broken row, or ends its request where there is none to blame.

        A rejected token whose keys or values are not finite spoils the queries before it too (0 times NaN).
        """
        rows = self._parts.rows
        if int(rows.draft_len[slot]):
            rows.drop_draft(slot)
            self.stuck.append(slot)
            return []
        request.error = GlimpseError(reason)
        return [Progress(request, request.committer.abort(), 0)]

    def forget(self, slot: int) -> None:
        """Drops what is kept for a row."""
        self._book.forget(slot)

    def _judge(self, specs: list[RowSpec], logits: list[Tensor]) -> tuple[Verified, list[Tensor]]:
        """The verdict on all rows, and the logits it was made from, row by row."""
        slots = [spec.slot for spec in specs]
        draft = self._book.draft(slots)
        judged = []
        for index, (spec, own) in enumerate(zip(specs, logits, strict=True)):
            record_prompt_logprobs(self._running[spec.slot], spec.start, own)
            drafted = draft.offsets[index + 1] - draft.offsets[index]
            judged.append(own[len(own) - drafted - 1 :])
        parts = self._parts
        return verify(parts.rows, parts.sampler, parts.acceptance, draft, slots, torch.cat(judged)), judged

    def _learn(self, outcomes: list[Outcome]) -> None:
        parts = self._parts
        view = RowView(parts.rows, tuple(outcome.slot for outcome in outcomes))
        parts.pacer.observe(view, outcomes)
        for outcome in outcomes:
            committed, sequence = int(parts.rows.committed_len[outcome.slot]), parts.rows.sequence(outcome.slot)
            verified = committed + outcome.accepted
            if outcome.path is not None:
                keep_path(sequence, committed, outcome.path)
            parts.rows.commit(outcome.slot, outcome.tokens, verified)
            sequence.truncate(verified)
            parts.sampler.commit(outcome.slot, outcome.tokens)
        parts.drafter.absorb(view, outcomes)


def _cut(
    request: Request, spec: RowSpec, verified: Verified, index: int, logits: Tensor, importance: Tensor | None
) -> tuple[Progress, Outcome]:
    """Commits one row: the committer decides what is kept, and all else is cut to it."""
    tokens, path = verified.tokens[index], verified.paths[index]
    drafted = verified.draft.offsets[index + 1] - verified.draft.offsets[index]
    depth = drafted if spec.parents is None else tree_depth(spec.parents.tolist())
    commit, accepted = keep_tokens(request, tokens, drafted, len(path), depth)
    request.speculation.relaxed += min(accepted, verified.relaxed[index])
    kept = list(commit.token_ids)
    record_logprobs(request, logits, [0, *[node + 1 for node in path]], kept)
    if spec.parents is None:
        outcome = Outcome(spec.slot, drafted, accepted, kept, _kept_importance(importance, drafted - accepted))
    else:
        weights = _path_importance(importance, spec, path[:accepted])
        outcome = Outcome(spec.slot, drafted, accepted, kept, weights, path[:accepted])
    return Progress(request, commit, accepted, drafted), outcome


def keep_trusted(request: Request, tokens: list[int]) -> Commit:
    """Commits what the committer keeps of tokens that nothing verified, and counts them."""
    commit = request.committer.commit(tokens)
    request.clock.mark_tokens()
    request.speculation.trusted += len(commit.token_ids)
    return commit


def keep_tokens(
    request: Request, tokens: list[int], drafted: int, accepted: int, depth: int | None = None
) -> tuple[Commit, int]:
    """Commits what the committer keeps of a row's tokens, of which the first `accepted` were drafts, of `drafted` nodes
    `depth` tokens deep (None: a chain).

    Counts the round; returns the commit, and how many accepted drafts are in it.
    """
    made = take_tokens(request, tokens, drafted, accepted, depth).told()
    return made.commit, made.accepted


class Round(NamedTuple):
    """A row's round, whose tokens are output now; it is counted, and its text read, when it is told of."""

    request: Request
    taken: Taken
    drafted: int
    kept: int
    """Accepted drafts that are in it."""
    depth: int | None
    counts: bool

    def told(self) -> Progress:
        """What came of it."""
        if self.counts:
            self.request.speculation.record(self.drafted, self.kept, self.depth)
        return Progress(self.request, self.request.committer.show(self.taken), self.kept, self.drafted)


def take_tokens(
    request: Request, tokens: list[int], drafted: int, accepted: int, depth: int | None = None
) -> Round:  # fmt: skip
    """As `keep_tokens`; what may come later than the next step is left to `Round.told`."""
    first = not request.committer.token_ids
    taken = request.committer.take(tokens)
    request.clock.mark_tokens()
    return Round(request, taken, drafted, min(accepted, len(taken.token_ids)), depth, bool(drafted) or not first)


def _kept_importance(weights: Tensor | None, rejected: int) -> Tensor | None:
    """The weights of the queries that stay, over the positions that stay."""
    if weights is None:
        return None
    return weights[:, :, : weights.shape[2] - rejected, : weights.shape[3] - rejected]


def _path_importance(weights: Tensor | None, spec: RowSpec, path: list[int]) -> Tensor | None:
    """The weights of the last committed token and of a tree's accepted nodes, over the positions that stay.

    Positions are those that the keys and values will have been moved to.
    """
    if weights is None:
        return None
    own = torch.tensor([0, *[node + 1 for node in path]], device=weights.device)
    queries = weights[:, :, own]
    return torch.cat([queries[..., : spec.start], queries[..., spec.start + own]], -1)
