"""The host drafters' timing runs with every drafter it names; what it times is real drafting."""

import re

import numpy as np
import pytest
from benchmarks import retrieval_host


@pytest.mark.parametrize("name", retrieval_host.ARMS)
def test_every_arm_is_timed_and_drafts(name):
    text = np.tile(np.arange(5, 45), 20)
    line = retrieval_host.measure(name, text, 2, 200, 4)
    nodes = re.search(r"(\d+) nodes a row", line)
    assert nodes
    assert int(nodes[1]) >= 1
