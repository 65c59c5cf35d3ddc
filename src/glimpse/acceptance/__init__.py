"""Acceptance: which drafted tokens become output. `resolve` finds a rule by name."""

from glimpse.acceptance.rule import Acceptance, Accepted, NodeNoise
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
    """The acceptance rule called `name`; raises ArgumentError listing the known ones when there is none."""
    rule: Acceptance = REGISTRY.get(name)()
    return rule


__all__ = ["REGISTRY", "Acceptance", "Accepted", "NodeNoise", "resolve"]
