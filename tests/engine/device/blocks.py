"""What a block drafter is told, and blocks whose first token is known: for tests that compare two engines."""

from __future__ import annotations

import torch
from torch import Tensor

from glimpse.drafting.block.flex import FlexHead
from glimpse.llm import LLM

Told = dict[tuple[int, ...], tuple[Tensor, Tensor]]
"""By the text that a block goes on from: its tokens [size] and their chances [size], on the host."""


def following(texts, vocab: int = 300) -> Tensor:
    """[vocab] int64: what follows each token in some texts."""
    found = torch.zeros(vocab, dtype=torch.int64)
    for text in texts:
        found[text[:-1]] = torch.tensor(text[1:])
    return found


def knowing(llm: LLM, following: Tensor, monkeypatch) -> None:
    """The first token of every block is what is said to follow; the others are what the masks say."""
    decoder, calibrate = llm.loaded.checkpoint.decoder, FlexHead.calibrate
    head = decoder.head(torch.eye(decoder.spec.hidden_size, device=decoder.device, dtype=decoder.dtype))
    said = following.to(decoder.device)

    def known(self, masks, bonus):
        hidden = calibrate(self, masks, bonus)
        hidden[:, 0] = 30 * torch.nn.functional.normalize(head[:, said[bonus]].T, dim=1)
        return hidden

    monkeypatch.setattr(FlexHead, "calibrate", known)


def told(llm: LLM) -> Told:
    """What the drafter of `llm` is told of blocks from now on."""
    drafter, heard = llm._engine.parts.drafter, Told()
    keep = drafter.keep

    def keeping(rows, tokens, chances):
        for slot, own, sure in zip(rows.slots, tokens.cpu(), chances.cpu(), strict=True):
            text = tuple(rows.rows.tokens[slot, : rows.rows.committed_len[slot]].tolist())
            heard[text] = own, sure
        keep(rows, tokens, chances)

    drafter.keep = keeping
    return heard


def unlike(found: Told, right: Told) -> str:
    """A line for every block that is not the right one, or that only one of the two was told of; empty for none."""
    lines = []
    for text in sorted(found.keys() | right.keys(), key=lambda text: (len(text), text)):
        if text not in found or text not in right:
            lines.append(
                f"after {len(text)} tokens: only {'the right one' if text in right else 'this one'} has a block"
            )
            continue
        (tokens, chances), (others, sure) = found[text], right[text]
        if tokens.tolist() != others.tolist() or not torch.allclose(chances, sure, rtol=1e-3, atol=1e-5):
            lines.append(f"after {len(text)} tokens: {_shown(tokens, chances)}; right is {_shown(others, sure)}")
    return "\n".join(lines)


def _shown(tokens: Tensor, chances: Tensor) -> str:
    return f"{tokens.tolist()} of chances {[f'{chance:.6g}' for chance in chances.tolist()]}"


def counts(outputs) -> list[tuple[object, ...]]:
    """What became of each output's drafts."""
    return [
        (own.rounds, own.drafted, own.accepted, own.draft_lengths)
        for own in (output.speculation for output in outputs)
    ]  # fmt: skip
