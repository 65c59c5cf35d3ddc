"""Logprobs of what was committed and of the prompt, from the target's raw logits."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.engine.request import Request
from glimpse.outputs import TokenLogprob
from glimpse.sampling.logprobs import token_logprobs


def record_logprobs(request: Request, logits: Tensor, nodes: list[int], kept: list[int]) -> None:
    """Adds the logprobs of the kept tokens; token i was picked at row `nodes[i]` of logits [nodes, vocab]."""
    if request.params.logprobs is None or not kept:
        return
    request.logprobs += _measure(logits[nodes[: len(kept)]], kept, request.params.logprobs)


def record_prompt_logprobs(request: Request, start: int, logits: Tensor) -> None:
    """Adds the logprobs of the prompt tokens that follow positions start, start + 1, ... with logits [n, vocab].

    Of a request that has written something they are there, though its prompt may be read again.
    """
    top = request.params.prompt_logprobs
    if top is None or start >= len(request.prompt) or request.committer.token_ids:
        return
    if start == 0:
        request.prompt_logprobs.append(None)
    following = request.prompt[start + 1 : start + 1 + len(logits)]
    if following:
        request.prompt_logprobs += _measure(logits[: len(following)], following, top)


def _measure(logits: Tensor, tokens: list[int], top: int) -> list[TokenLogprob]:
    found = token_logprobs(logits, torch.tensor(tokens), top)
    tops = zip(found.top_ids.tolist(), found.top_logprobs.tolist(), strict=True)
    return [
        TokenLogprob(token, logprob, tuple(zip(ids, values, strict=True)))
        for token, logprob, (ids, values) in zip(tokens, found.logprobs.tolist(), tops, strict=True)
    ]
