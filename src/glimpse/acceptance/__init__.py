"""Acceptance: which drafted tokens become output. `resolve` finds a rule by name."""

from glimpse.acceptance.rule import Acceptance, Accepted, NodeNoise
from glimpse.errors import ArgumentError
from glimpse.registry import Registry

REGISTRY = Registry(
    "glimpse.acceptance",
    {
        "coupled": "glimpse.acceptance.exact:Coupled",
        "matched": "glimpse.acceptance.exact:Matched",
        "rejection": "glimpse.acceptance.rejection:Rejection",
    },
)


def resolve(name: str) -> Acceptance:
    """The exact acceptance rule called `name`.

    Raises ArgumentError listing the known ones when there is none, and for a plug-in that is not lossless: those are
    reached through `glimpse.acceptance.lossy` alone.
    """
    rule: Acceptance = REGISTRY.get(name)()
    if not rule.lossless:
        raise ArgumentError(
            f"acceptance {name!r} is lossy: offer it in the entry-point group glimpse.lossy, and ask for it as lossy"
        )
    return rule


__all__ = ["REGISTRY", "Acceptance", "Accepted", "NodeNoise", "resolve"]
