"""All mutants, by name."""

from __future__ import annotations

from collections.abc import Sequence

from tests.mutants import (
    of_acceptance,
    of_bits,
    of_block,
    of_cache,
    of_device,
    of_engine,
    of_pacing,
    of_sampling,
    of_serve,
)
from tests.mutants.mutant import Mutant

HOST = (
    *of_acceptance.MUTANTS, *of_sampling.MUTANTS, *of_cache.MUTANTS, *of_engine.MUTANTS, *of_pacing.MUTANTS,
    *of_block.MUTANTS,
)  # fmt: skip
DEVICE = (*of_device.MUTANTS, *of_bits.MUTANTS)
"""Need triton, and no GPU."""
SERVE = of_serve.MUTANTS
"""Need the extra `serve`."""
EVERY = {mutant.name: mutant for mutant in (*HOST, *SERVE, *DEVICE)}


def named(names: Sequence[str]) -> list[Mutant]:
    """The mutants of these names. Raises KeyError for one that there is not."""
    return [EVERY[name] for name in names]
