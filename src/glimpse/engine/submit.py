"""From a prompt and parameters to requests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glimpse.engine.byte_text import text_stream
from glimpse.engine.commit import Committer
from glimpse.engine.face import EngineFace
from glimpse.engine.loaded import Loaded
from glimpse.engine.request import Request
from glimpse.errors import ArgumentError
from glimpse.sampling.checks import shown
from glimpse.sampling.params import ResolvedParams, SamplingParams
from glimpse.sampling.resolve import resolve
from glimpse.speculation import Speculation


def make_requests(loaded: Loaded, engine: EngineFace, prompt: list[int], params: SamplingParams) -> list[Request]:
    """The `n` requests of one prompt.

    Raises ArgumentError for an empty or overlong prompt, an id out of range, or parameters that the engine refuses.
    """
    checkpoint, context = loaded.checkpoint, loaded.context
    ids = _checked(prompt, checkpoint.spec.vocab_size, context)
    resolved = resolve(
        params,
        checkpoint.generation_defaults,
        room=context - len(prompt),
        vocab_size=checkpoint.spec.vocab_size,
        encode=lambda text: checkpoint.tokenizer.encode(text, add_special_tokens=False),
    )
    if resolved.grammar is not None:
        loaded.grammars.guide(resolved.grammar)  # compiled here, so that no step waits for it
    reason = engine.refuses(resolved)
    if reason:
        raise ArgumentError(reason)
    return [_request(loaded, engine, prompt, ids, resolved.child(index), index) for index in range(resolved.n)]


def _checked(prompt: list[int], vocab_size: int, context: int) -> NDArray[np.int64]:
    """[tokens]: the prompt. Raises ArgumentError for an empty or overlong one, and for an id out of range."""
    if not prompt:
        raise ArgumentError("the prompt is empty; give at least one token")
    if len(prompt) > context:
        raise ArgumentError(f"the prompt has {len(prompt)} tokens but the context only {context}")
    try:
        ids = np.array(prompt, dtype=np.int64)
    except OverflowError:
        ids = np.array([-1])
    if ids.min() < 0 or ids.max() >= vocab_size:
        wrong = next(token for token in prompt if not 0 <= token < vocab_size)
        raise ArgumentError(f"the prompt holds token id {shown(wrong)}, but ids go from 0 to {vocab_size - 1}")
    return ids


def _request(
    loaded: Loaded, engine: EngineFace, prompt: list[int], ids: NDArray[np.int64], params: ResolvedParams, index: int
) -> Request:
    checkpoint, parts, options = loaded.checkpoint, engine.parts, engine.options
    room = loaded.context - len(prompt)
    committer = Committer(
        text_stream(checkpoint.tokenizer, skip_special_tokens=params.skip_special_tokens),
        max_tokens=params.max_tokens,
        context_room=room,
        min_tokens=params.min_tokens,
        eos_token_ids=checkpoint.spec.eos_token_ids,
        stop_token_ids=params.stop_token_ids,
        stop_strings=params.stop,
        ignore_eos=params.ignore_eos,
        include_stop_str_in_output=params.include_stop_str_in_output,
    )
    speculation = Speculation(
        drafter=options.drafter,
        pacer=options.paced_by,
        acceptance=parts.acceptance.name,
        lossless=parts.drafter.lossless and parts.acceptance.lossless,
        lossy=options.lossy,
    )
    limit = len(prompt) + (room if params.max_tokens is None else min(room, params.max_tokens))
    return Request(prompt, params, committer, speculation, limit, ids, index)
