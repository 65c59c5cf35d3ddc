"""What the memory's plan counts of each row is what the device rounds keep of it."""

import pytest
import torch

from glimpse.drafting import DRAFTERS
from glimpse.engine.device.state import DeviceRecall
from glimpse.engine.memory import costs_of
from glimpse.model.hf_config import spec_from_config
from tiny import tiny_config


@pytest.mark.parametrize(("drafter", "bytes_a_position"), [("sparse", 8), ("slowfast", 12)])
def test_a_row_costs_on_a_gpu_what_the_device_rounds_keep_of_it(drafter, bytes_a_position):
    """Tokens and the recall state at any budget; by the tensors that are really made."""
    spec, scores = spec_from_config(tiny_config()), DRAFTERS.get(drafter).scores
    made = DeviceRecall.empty(spec.layers, 3, spec.heads, spec.kv_heads, 256, 256, "cpu", scores)
    tensors = (made.scores, made.fresh, made.slots)
    each = costs_of(spec, torch.bfloat16, torch.device("cuda"), scores).row_position - torch.int64.itemsize
    assert sum(tensor.nbytes for tensor in tensors) == 3 * 256 * each
    assert each == bytes_a_position * spec.layers * spec.kv_heads
