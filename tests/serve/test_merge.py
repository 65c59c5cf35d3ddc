"""Rounds put together say what they say one by one."""

from __future__ import annotations

from glimpse.outputs import Piece, StreamChunk, TokenLogprob
from glimpse.serve.merge import merged


def chunk(*tokens, logprobs=False, output=None, drafted=0):
    pieces = tuple(Piece(f"<{token}>", token, False) for token in tokens)
    said = tuple(TokenLogprob(token, -1.0) for token in tokens) if logprobs else None
    return StreamChunk("".join(piece.text for piece in pieces), tokens, pieces, output, said, drafted, "racer")


def test_each_text_has_one_chunk_with_all_of_its_rounds():
    end = object()
    batch = [
        (1, chunk(5, logprobs=True)),
        (0, chunk(6)),
        (1, chunk(7, 8, logprobs=True, drafted=3)),
        (0, chunk(output=end)),
    ]
    found = merged(batch)
    assert found == [
        (1, chunk(5, 7, 8, logprobs=True, drafted=3)),
        (0, chunk(6, output=end)),
    ]
    assert batch[0][1].token_ids == (5,)


def test_one_round_stays_as_it_is():
    batch = [(2, chunk(5, 6))]
    assert merged(batch) is batch
