"""From a request to what its caller gets."""

from __future__ import annotations

from collections.abc import Mapping

from glimpse.engine.request import Progress, Request
from glimpse.outputs import GenerationOutput, Piece, StreamChunk, Timing, Usage


def output_of(request: Request, settings: Mapping[str, object]) -> GenerationOutput:
    """The output of a request that has ended."""
    committer, clock, params = request.committer, request.clock, request.params
    tokens = tuple(committer.token_ids)
    started = clock.first_token or clock.admitted
    return GenerationOutput(
        text=committer.text,
        token_ids=tokens,
        finish_reason=committer.finish_reason or "abort",
        stop_reason=committer.stop_reason,
        usage=Usage(len(request.prompt), len(tokens)),
        speculation=request.speculation,
        timing=Timing(started - clock.admitted, max(0.0, clock.ended - started), len(tokens)),
        settings={**settings, **params.as_dict()},
        logprobs=None if params.logprobs is None else tuple(request.logprobs),
        prompt_logprobs=None if params.prompt_logprobs is None else tuple(request.prompt_logprobs),
        index=request.index,
        prompt_token_ids=tuple(request.prompt),
    )


def chunk_of(progress: Progress, before: int) -> StreamChunk:
    """What a step added to a request that had written `before` tokens, as a stream chunk."""
    commit, request, accepted = progress.commit, progress.request, progress.accepted
    drafted = [index < accepted for index in range(len(commit.token_ids))]
    pieces = tuple(map(Piece, commit.pieces, commit.token_ids, drafted))
    asked = request.params.logprobs is not None
    logprobs = tuple(request.logprobs[before : before + len(commit.token_ids)]) if asked else None
    return StreamChunk(
        commit.text,
        commit.token_ids,
        pieces,
        logprobs=logprobs,
        drafted=progress.drafted,
        drafter=request.speculation.drafter_at(before),
    )
