"""What can run on the device rounds, and in a few words why something cannot."""

from __future__ import annotations

from glimpse.acceptance.exact import Coupled
from glimpse.acceptance.relaxed.trust import Trust
from glimpse.cache.selector import Selector
from glimpse.drafting.block.drafter import BlockDrafter
from glimpse.drafting.block.flex import FlexHead
from glimpse.drafting.drafter import Drafter, mixed_of, rider_of
from glimpse.drafting.refresh import RefreshDrafter
from glimpse.drafting.slowfast import SlowFastDrafter
from glimpse.drafting.sparse import SparseDrafter
from glimpse.engine.device.relaxed import relaxed_of
from glimpse.engine.parts import Parts
from glimpse.pacing.boundary import BoundaryPacer
from glimpse.sampling.params import ResolvedParams

LONGEST = 63
"""The longest draft that the device verifies: with the last committed token, 64 query tokens."""


def why_not_request(params: ResolvedParams) -> str | None:
    """Why a request's sampling needs the eager path; None if temperature, top-k, top-p and min-p are all of it."""
    asked = {
        "repetition_penalty": params.repetition_penalty != 1,
        "frequency_penalty": params.frequency_penalty != 0,
        "presence_penalty": params.presence_penalty != 0,
        "logit_bias": bool(params.logit_bias),
        "bad_words": bool(params.bad_words),
        "suppress_tokens": bool(params.suppress_tokens),
        "min_tokens": params.min_tokens > 0,
        "grammar": params.grammar is not None,
        "logprobs": params.logprobs is not None,
        "prompt_logprobs": params.prompt_logprobs is not None,
    }
    found = [name for name, given in asked.items() if given]
    return f"{', '.join(found)} asked for" if found else None


def slowfast_of(parts: Parts) -> tuple[Selector, BoundaryPacer] | None:
    """What chooses sets, and when, of Slow-Fast Inference and its lossless sibling where the device can do it."""
    drafter, pacer = parts.drafter, parts.pacer
    if not (isinstance(parts.acceptance, Trust | Coupled) and isinstance(drafter, SlowFastDrafter)):
        return None
    # The device does not keep the norms of keys.
    return (drafter.selector, pacer) if isinstance(pacer, BoundaryPacer) and not drafter.selector.key_norm else None


def flex_of(drafter: Drafter) -> FlexHead | None:
    """The head of a drafter whose mask tokens the device has ride on its rows."""
    head = drafter.head if isinstance(drafter, BlockDrafter) else None
    return head if isinstance(head, FlexHead) else None


def why_not_engine(parts: Parts) -> str | None:
    """Why nothing of these parts can run on the device; None if it can."""
    drafter, most = parts.drafter, parts.pacer.most
    if slowfast_of(parts):
        return None
    if isinstance(drafter, SlowFastDrafter) and drafter.selector.key_norm:
        return "a Selector that looks at the keys' norms"
    if not isinstance(parts.acceptance, Coupled):
        name = parts.acceptance.name
        if relaxed_of(parts.acceptance) is None:
            return f"acceptance {name!r}"
        if drafter.gives_tree or rider_of(drafter) is not None:
            return f"acceptance {name!r} of other drafts than chains"
    if rider_of(drafter) is not None and flex_of(drafter) is None:
        return f"drafter {drafter.name!r} has mask tokens ride in forwards"
    if isinstance(drafter, RefreshDrafter):
        return "a refresh layer"
    if parts.pacer.reads_drafts:
        return f"pacer {parts.pacer.name!r} reads what was drafted"
    if drafter.needs_forward and (not isinstance(drafter, SparseDrafter) or isinstance(drafter, SlowFastDrafter)):
        return f"drafter {drafter.name!r} feeds forwards of its own"
    if mixed_of(drafter) is not None and drafter.gives_tree:
        return f"drafter {drafter.name!r} gives trees beside self-drafts"
    if drafter.importance and not drafter.needs_forward:
        return f"drafter {drafter.name!r} wants attention weights"
    if parts.pacer.foretells and drafter.drafts and most > LONGEST:
        return f"drafts of {most} tokens, where {LONGEST} are the most"
    return None
