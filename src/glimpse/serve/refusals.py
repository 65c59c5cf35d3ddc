"""Options of the OpenAI API that this server cannot honour: only values that ask for nothing are let through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glimpse.serve.errors import refused


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an option is refused, and which values ask for nothing (null always does)."""

    reason: str
    harmless: tuple[object, ...] = ()


_COMMON: Mapping[str, Refusal] = {
    "service_tier": Refusal("there is one tier; leave it out", ("auto", "default")),
    "store": Refusal("nothing is stored here; leave it out", (False,)),
}
_CHAT_ONLY = "a text model alone is served here; leave it out"
COMPLETION: Mapping[str, Refusal] = {
    **_COMMON,
    "suffix": Refusal("filling in the middle is not served; leave it out", ("",)),
}
CHAT: Mapping[str, Refusal] = {
    **_COMMON,
    "audio": Refusal(_CHAT_ONLY),
    "modalities": Refusal(_CHAT_ONLY, (["text"],)),
    "moderation": Refusal("nothing is moderated here; leave it out"),
    "prediction": Refusal("drafters find what repeats by themselves; leave it out, or ask for drafter 'lookup'"),
    "reasoning_effort": Refusal("the model has no such setting; leave it out", ("none",)),
    "verbosity": Refusal("the model has no such setting; leave it out", ("medium",)),
    "web_search_options": Refusal("nothing is searched here; leave it out"),
    "functions": Refusal("deprecated: use tools"),
    "function_call": Refusal("deprecated: use tool_choice", ("none",)),
}
IDLE = ("user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "metadata")
"""Options that are labels or hints, which by their definition change nothing in the answer; they are let through."""


def without_refused(body: Mapping[str, object], table: Mapping[str, Refusal]) -> dict[str, object]:
    """The options that are left once those that ask for nothing are taken out. Raises ApiError naming a refused one."""
    for name, refusal in table.items():
        value = body.get(name)
        if value is not None and value not in refusal.harmless:
            raise refused(name, value, refusal.reason)
    return {name: value for name, value in body.items() if name not in table and name not in IDLE and value is not None}
