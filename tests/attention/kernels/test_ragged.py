"""Rows of different lengths in one batch: each kernel gives a row what it gives it alone, and leaves the others be."""

from __future__ import annotations

import pytest
import torch

from attention.kernels.batches import TOLERANCE, error, make_batch
from attention.kernels.test_paged import SMALL, TILES
from attention.kernels.test_recalled import recall_of
from glimpse.attention.triton import definitions
from glimpse.attention.triton.attention import HeadShape, Importance, Paged
from glimpse.attention.triton.picking import RowSettings, Sample
from glimpse.attention.triton.ragged import Ragged
from glimpse.attention.triton.recalled import Recalled, RecalledConfig

COUNTS = [3, 0, 1, 5, 0]
"""Tokens of rows that read everything; row 1 drafts, row 4 is idle."""
FIRSTS = [0, 3, 4, 5, 10]
OWNERS = [0, 0, 0, 1, 2, 3, 3, 3, 3, 3, -1, -1]


def ints(values, device):
    return torch.tensor(values, dtype=torch.int32, device=device)


@pytest.fixture
def ragged(device):
    return Ragged(ints(FIRSTS, device), ints(OWNERS, device))


def spread(q, queries, device):
    """The tokens [12, heads, dim] of rows with `queries` each, where `FIRSTS` says."""
    found = torch.full((len(OWNERS), *q.shape[1:]), torch.nan, device=device, dtype=q.dtype)
    for row, tokens in enumerate([3, 1, 1, 5, 0]):
        count = min(tokens, queries)
        found[FIRSTS[row] : FIRSTS[row] + count] = q[row * queries : row * queries + count]
    return found


@pytest.mark.parametrize("config", [SMALL, TILES], ids=["one tile", "tiles"])
def test_rows_that_read_everything(config, ragged, device, dtype):
    """With importance; the token of a row that drafts stays as it was, padding comes out as zeros."""
    batch = make_batch([70, 0, 20, 41, 0], 5, 6, 2, 16, device, dtype)
    counts, reference = ints(COUNTS, device), torch.linspace(-1, 3, 30, device=device).view(5, 6)
    paged = Paged(HeadShape(6, 2, 16), 5, 5, batch.page_size, device, config)
    paged.part_out.fill_(torch.nan)
    paged.part_lse.fill_(torch.nan)
    paged.plan(batch.lengths)
    right, importance, means = definitions.paged(
        *batch.wide(), counts=counts, reference=reference, counted=paged.counted
    )
    scores, fresh = torch.zeros(5, 2, importance.shape[-1], device=device), reference.clone()
    out = torch.full((len(OWNERS), 6, 16), 7.0, device=device, dtype=dtype)
    paged(
        spread(batch.q, 5, device), batch.keys, batch.values, batch.table, batch.lengths, counts=counts,
        ragged=ragged, importance=Importance(scores, reference, fresh), out=out,
    )  # fmt: skip
    for row, count in enumerate(COUNTS):
        if count:
            begin = FIRSTS[row]
            assert error(out[begin : begin + count], right[row * 5 : row * 5 + count]) < TOLERANCE[dtype]
    assert (out[3] == 7).all()
    assert (out[10:] == 0).all()
    assert error(scores, importance) < TOLERANCE[dtype]
    assert error(fresh, means) < TOLERANCE[dtype]


@pytest.mark.parametrize("pieces", [1, 4])
def test_rows_that_draft(pieces, ragged, device, dtype):
    """Only row 1 drafts; recall sets of the others are there all the same."""
    batch = make_batch([0, 80, 0, 0, 0], 1, 9, 3, 16, device, dtype)
    recall = recall_of(batch, 40, [30, 40, 0, 7, 40], [60, 60, 0, 8, 50])
    attention = Recalled(HeadShape(9, 3, 16), 5, batch.page_size, device, RecalledConfig(block=16, pieces=pieces))
    q, keys, values, table, lengths, page_size = batch.wide()
    right = definitions.recalled(q, keys, values, *recall, lengths, table, page_size)
    for _ in range(2):  # the second launch finds the counters as the first one left them
        out = torch.full((len(OWNERS), 9, 16), 7.0, device=device, dtype=dtype)
        attention(
            spread(batch.q, 1, device), batch.keys, batch.values, *recall, batch.lengths, batch.table, ragged=ragged,
            out=out,
        )  # fmt: skip
        assert error(out[3], right[1]) < TOLERANCE[dtype]
        assert (torch.cat([out[:3], out[4:]]) == 7).all()
        assert (attention.arrived == 0).all()


def test_tokens_are_picked_by_their_rows_settings(ragged, device):
    logits = torch.randn(len(OWNERS), 97, generator=torch.Generator().manual_seed(3)).to(device)
    rows = RowSettings(
        torch.tensor([1.0, 0.7, 0.9, 1.1, 1.0], dtype=torch.float64, device=device),
        torch.tensor([1, 20, 97, 5, 97], device=device),
        torch.tensor([1.0, 0.9, 1.0, 1.0, 0.5], dtype=torch.float64, device=device),
        torch.full((5,), -torch.inf, dtype=torch.float64, device=device),
    )
    seeds, positions = torch.arange(5, device=device) * 77, torch.arange(len(OWNERS), device=device) + 40
    own = ragged.owners.long().clamp_min(0)
    each = RowSettings(rows.temperature[own], rows.top_k[own], rows.top_p[own], rows.log_min_p[own])
    right = Sample(len(OWNERS), 97, device)(logits, each, seeds[own], positions, ahead=1)
    found = Sample(len(OWNERS), 97, device)(logits, rows, seeds, positions, ahead=1, owners=ragged.owners)
    assert found.tokens.tolist() == right.tokens.tolist()
    assert found.probabilities.tolist() == right.probabilities.tolist()
