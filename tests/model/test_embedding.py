"""Embedding rows read from a file equal those in memory."""

import pytest
import torch

from glimpse.errors import ModelError
from glimpse.model.embedding import DenseEmbedding, FileEmbedding, FileRows
from glimpse.model.weights.safetensors import SafetensorsWeights
from tests.tiny import write_weights


@pytest.fixture(params=[torch.float32, torch.bfloat16, torch.float16])
def stored(request, tmp_path):
    weight = torch.randn(50, 12, generator=torch.Generator().manual_seed(0)).to(request.param)
    write_weights(tmp_path, {"other": torch.zeros(3), "table": weight})
    return weight, SafetensorsWeights(tmp_path).rows("table")


@pytest.mark.parametrize("tokens", [[], [0], [49, 0, 7, 7, 3]])
def test_rows_from_the_file_equal_rows_in_memory(stored, tokens):
    weight, rows = stored
    wanted = torch.tensor(tokens, dtype=torch.int64)
    found = FileEmbedding(rows, torch.float32)(wanted)
    assert found.shape == (len(tokens), 12)
    assert torch.equal(found, DenseEmbedding(weight.float())(wanted))


@pytest.mark.parametrize("token", [-1, 50])
def test_ids_outside_the_table_are_refused(stored, token):
    with pytest.raises(IndexError, match="0 to 49"):
        FileEmbedding(stored[1], torch.float32)(torch.tensor([3, token]))


def test_a_file_cut_short_while_in_use_is_one_clear_error(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(bytes(100))
    rows = FileRows(path, 0, (3, 10), 40, torch.from_numpy)
    with pytest.raises(ModelError, match="cut short"):
        rows.read([2])


def test_looked_up_rows_may_be_changed(stored):
    """The decoder adds to them in place."""
    weight, rows = stored
    embedding = FileEmbedding(rows, weight.dtype)
    embedding(torch.tensor([1])).add_(1)
    assert torch.equal(embedding(torch.tensor([1]))[0], weight[1])
