"""The bitwise mode of the device engine: the CPU's text, keys and values the same bits read or decoded, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attention.kernels.interpreter import even_products
from engine.device.engines import greedy, ids_of, prompts_of, tiny_folder
from glimpse.engine.build import make_parts
from glimpse.engine.device import bitwise
from glimpse.engine.device.build import device_engine
from glimpse.engine.device.forward import FusedForward
from glimpse.errors import ArgumentError
from glimpse.llm import LLM
from glimpse.sampling.params import SamplingParams
from tiny import write_tiny_checkpoint

SPARSE = {"drafter": "sparse", "pacer": "fixed", "draft_tokens": 2, "budget": 0.1, "budget_floor": 38}

SMALL = 24
"""More than 16: from there on the fast mode's tiles are others than for a token alone."""


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    """Two layers: what attention gives is in the keys and values of the second one only."""
    folder = write_tiny_checkpoint(
        tmp_path_factory.mktemp("bitwise") / "tiny", num_hidden_layers=2, max_position_embeddings=128, hidden_size=192,
        intermediate_size=64, head_dim=32,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glimpse.model.linear.can_pack", lambda dtype: False)  # weights as a GPU has them
        return LLM(folder, drafter="none", pacer="fixed", max_batch_size=2, device="cpu")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch, llm):
    """Parts of at most `SMALL` tokens; numpy's own roundings are kept out."""
    for name in ("LEAST", "MOST"):
        monkeypatch.setattr(bitwise, name, SMALL)
    free = llm.loaded.pool.free_pages
    with even_products():
        yield
    assert llm.loaded.pool.free_pages == free


def on_device(llm, **options):
    other = llm.variant(**options)
    asked = replace(other.options, exact="bitwise")
    other._engine = device_engine(make_parts(llm.loaded, asked), asked)
    return other


def test_the_text_is_the_cpus(llm):
    prompts, params = prompts_of(llm, 20, 33, 8), [greedy(1), greedy(3), greedy(2)]
    outputs = on_device(llm, **SPARSE, prefix_reuse=False).generate(prompts, params)
    assert ids_of(outputs) == ids_of(llm.generate(prompts, params))
    assert sum(output.speculation.drafted for output in outputs) > 0


def written(engine, request, count):
    """Keys and values of a request's first positions, of all layers."""
    sequence = next(seat.sequence for seat in engine._seats.taken if seat.request is request)
    slots = torch.cat([torch.arange(first, first + many) for first, many in sequence.extents(0, count)])
    pool = engine.parts.pool
    return torch.stack(
        [torch.stack((keys[:, slots], values[:, slots])) for keys, values in zip(pool.keys, pool.values, strict=True)]
    )


def run(llm, prompt, tokens, **options):
    """(what was written, the keys and values behind it) with a row that is not done yet."""
    device = on_device(llm, **options, prefix_reuse=False)
    engine, (request,) = device._engine, device._requests([prompt], greedy(40))
    engine.add(request)
    while len(request.committer.token_ids) < tokens:
        engine.step()
    ids = list(request.committer.token_ids)[:tokens]
    found = written(engine, request, len(prompt) + tokens - 1).clone()
    engine.cancel(request)
    return ids, found


def test_keys_and_values_are_the_same_bits_read_decoded_or_verified(llm):
    (prompt,) = prompts_of(llm, 20)
    ids, decoded = run(llm, prompt, 4, drafter="none", pacer="fixed")
    same, verified = run(llm, prompt, 4, **SPARSE)
    assert same == ids
    assert torch.equal(verified, decoded)
    _, read = run(llm, prompt + ids, 1, drafter="none", pacer="fixed")
    assert torch.equal(read[..., : decoded.shape[3], :], decoded)


def test_logits_are_the_same_bits_alone_and_among_others(llm):
    forward = FusedForward(llm.loaded.checkpoint.decoder, llm.loaded.pool, 64, bitwise=True)
    hidden = torch.randn(20, llm.spec.hidden_size, generator=torch.Generator().manual_seed(3))
    together = forward.logits(hidden)
    for row in (0, 7, 19):
        assert torch.equal(forward.logits(hidden[row : row + 1]), together[row : row + 1])


def test_a_request_that_runs_eagerly_is_refused(llm):
    with pytest.raises(ArgumentError, match=r"repetition_penalty asked for, which runs eagerly only"):
        on_device(llm, **SPARSE).generate([prompts_of(llm, 20)[0]], SamplingParams(repetition_penalty=1.2))


def test_what_cannot_be_had_is_refused(llm, tmp_path):
    with pytest.raises(ArgumentError, match=r"exact 'bitwise' needs a CUDA GPU and Triton"):
        LLM(tiny_folder(tmp_path), device="cpu", exact="bitwise")
    with pytest.raises(ArgumentError, match=r"exact 'bitwise' over a cache of exact 'tokens'"):
        llm.variant(exact="bitwise")
    with pytest.raises(ArgumentError, match=r"exact must be 'tokens' or 'bitwise', not 'nearly'"):
        llm.variant(exact="nearly")
    odd = LLM(tiny_folder(tmp_path / "odd"), drafter="none", pacer="fixed", device="cpu")
    with pytest.raises(ArgumentError, match=r"widths that are multiples of 64"):
        on_device(odd, drafter="none")
    with pytest.raises(ArgumentError, match=r"which rules out: acceptance 'matched'"):
        on_device(llm, drafter="lookup", acceptance="matched")


@pytest.mark.parametrize(
    ("width", "queries", "tokens"),
    [(8192, 5, 1024), (8192, 4, 1024), (8192, 1, 256), (32768, 5, 320), (1 << 17, 5, 256)],
)
def test_parts_are_shorter_where_attention_has_many_pieces(width, queries, tokens, monkeypatch):
    monkeypatch.undo()
    assert bitwise.part_of(width, queries, 512) == tokens
