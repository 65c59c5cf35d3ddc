"""Linears of narrow models with what surrounds them, against the decoder's own arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from glimpse.attention.triton.narrow import Narrow, NarrowConfig, Tile
from glimpse.attention.triton.narrow_config import MEASURED, parts_of
from glimpse.attention.triton.sizes import links
from glimpse.model.decoder import Norm
from glimpse.model.rope import Rotation

INNER, HEADS, KV_HEADS, DIM = 192, 4, 2, 16
WHOLE = NarrowConfig(Tile(8, 16), Tile(16, 16, sliced=True), Tile(32, 16), Tile(64, 8))
SPLIT = replace(WHOLE, output=Tile(64, 16, splits=3), down=Tile(16, 16, splits=2, sliced=True, early=True))
LOOPED = NarrowConfig(*[Tile(32, 16, block=32, stages=2)] * 4)


HALVES = [torch.bfloat16, torch.float16]
DTYPES = HALVES if torch.cuda.is_available() else [torch.float32, *HALVES]


@pytest.fixture(params=DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def dtype(request):
    """16 bits under the interpreter too: the launches round where the dtype tells. A GPU never gets float32 here."""
    return request.param


def draw(*shape, device, dtype, seed=0, scale=1.0):
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).to(device, dtype)


def close(found, right):
    """Equal but for the order of sums, then rounded to the dtype a few times."""
    eps = torch.finfo(found.dtype).eps
    torch.testing.assert_close(found, right, rtol=8 * eps, atol=16 * eps)


class Case:
    """`tokens` tokens of a residual stream, one norm, and the launches for them."""

    def __init__(self, tokens, hidden, config, device, dtype):
        self.tokens, self.hidden, self.options = tokens, hidden, {"device": device, "dtype": dtype}
        self.narrow = Narrow(tokens, hidden, device, replace(config, linked=links(device)))
        self.x = draw(tokens, hidden, **self.options)
        self.norm = Norm(draw(hidden, seed=1, **self.options), 1e-5)

    def weight(self, rows, columns=None):
        columns = columns or self.hidden
        return draw(rows, columns, seed=2, scale=columns**-0.5, **self.options)


@pytest.fixture(
    params=[(3, 64, WHOLE), (18, 192, WHOLE), (18, 64, SPLIT), (18, 64, LOOPED)],
    ids=["few", "two-blocks", "split", "looped"],
)
def case(request, device, dtype):
    return Case(*request.param, device, dtype)


def test_queries_keys_and_values(case, device, dtype):
    weight = case.weight((HEADS + 2 * KV_HEADS) * DIM)
    angles = draw(32, 1, DIM // 2, device=device, dtype=torch.float32, seed=3)
    cos, sin = torch.cat([angles.cos()] * 2, -1).to(dtype), torch.cat([-angles.sin(), angles.sin()], -1).to(dtype)
    positions = torch.arange(case.tokens, device=device) * 5 % 32
    slots = torch.arange(case.tokens, device=device) * 7 % 23
    slots[1] = -1
    keys, values = (draw(KV_HEADS, 24, DIM, device=device, dtype=dtype, seed=seed) for seed in (4, 5))
    kept = keys.clone(), values.clone()
    q = case.narrow.qkv(
        case.x, case.norm.weight, case.norm.eps, weight, cos, sin, positions, slots, keys, values, HEADS
    )
    right = F.linear(case.norm(case.x), weight).view(case.tokens, -1, DIM)
    turned = Rotation(cos[positions], sin[positions], DIM // 2).apply(right[:, : HEADS + KV_HEADS])
    close(q, turned[:, :HEADS])
    real = slots >= 0
    stored = slots[real]
    close(keys[:, stored], turned[real, HEADS:].transpose(0, 1))
    close(values[:, stored], right[real, -KV_HEADS:].transpose(0, 1))
    others = [slot for slot in range(24) if slot not in stored.tolist()]
    assert (keys[:, others] == kept[0][:, others]).all()
    assert (values[:, others] == kept[1][:, others]).all()


def test_gated_units(case):
    weight = case.weight(2 * INNER)
    gate, up = F.linear(case.norm(case.x), weight).chunk(2, -1)
    close(case.narrow.gated(case.x, case.norm.weight, case.norm.eps, weight), F.silu(gate) * up)


@pytest.mark.parametrize("name", ["output", "down"])
def test_products_are_added_to_the_residual_stream(case, name):
    inner = draw(case.tokens, INNER, seed=6, **case.options)
    weight = case.weight(case.hidden, INNER)
    right = case.x + F.linear(inner, weight)
    getattr(case.narrow, name)(inner, weight, case.x)
    close(case.x, right)


def test_a_token_does_not_depend_on_its_neighbours(device, dtype):
    """The same bits alone, and as the last of two tiles."""
    alone, among = (Case(tokens, 192, WHOLE, device, dtype) for tokens in (1, 18))
    alone.x.copy_(among.x[-1:])
    weight = alone.weight(2 * INNER)
    one, many = (case.narrow.gated(case.x, case.norm.weight, case.norm.eps, weight) for case in (alone, among))
    assert torch.equal(one[0], many[-1])


@pytest.mark.parametrize(
    ("width", "least", "parts"),
    [(576, 64, (512, 64)), (1536, 128, (1024, 512)), (512, 64, (512, 0)), (960, 64, (1024, 0)), (32, 64, (64, 0)),
     (576, 256, (512, 256)), (640, 64, (512, 128))],
)  # fmt: skip
def test_the_inner_dimension_in_two_blocks(width, least, parts):
    assert parts_of(width, least) == parts


def test_rows_too_long_or_indivisible_are_taken_another_way():
    long, odd = torch.empty(64, 5120, dtype=torch.bfloat16), torch.empty(64, 640, dtype=torch.bfloat16)
    assert Tile(16, 16, sliced=True).fitting(long).parts(5120) == (64, -1)
    assert Tile(64, 16, splits=3).fitting(odd).splits == 1
    assert Tile(64, 16, splits=2).fitting(odd).splits == 2


def test_every_number_of_tokens_has_its_tiles():
    for tokens, config in MEASURED:
        assert NarrowConfig.fit(tokens, False) == config
        assert NarrowConfig.fit(tokens, True).linked
    assert NarrowConfig.fit(10**6, False) == MEASURED[-1][1]
