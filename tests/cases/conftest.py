"""M-tiny and SmolLM2-135M, loaded once; every test on M-tiny is also a LEDGER test."""

from __future__ import annotations

import pytest
from tests.cases.models import smollm2
from tests.cases.verdicts import books


@pytest.fixture
def mtiny(tiny):
    """M-tiny, plainly decoding, room for 40 rows; afterwards its cache must be as before."""
    before = books(tiny)
    yield tiny
    assert books(tiny) == before


@pytest.fixture(scope="session")
def smol():
    """SmolLM2-135M in float32, plainly decoding, on the CPU."""
    return smollm2()
