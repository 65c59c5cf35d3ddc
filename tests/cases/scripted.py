"""A target that writes what a script says: its logits are the script's next token, whatever its layers think."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glimpse.llm import LLM


def follow_script(monkeypatch, llm: LLM, prompt: Sequence[int], script: Sequence[int]) -> None:
    """From now on `llm` and its variants answer a prompt as long as `prompt` with `script`, by position alone."""
    decoder, vocab = llm.loaded.checkpoint.decoder, llm.spec.vocab_size
    whole = decoder.forward

    def forward(tokens: Tensor, positions: Tensor, lengths: Tensor, attend) -> Tensor:
        hidden = whole(tokens, positions, lengths, attend)
        hidden[:, 0] = positions
        return hidden

    def logits(hidden: Tensor) -> Tensor:
        wanted = torch.zeros(len(hidden), vocab)
        for row, position in enumerate(hidden[:, 0].tolist()):
            place = int(position) + 1 - len(prompt)
            if 0 <= place < len(script):
                wanted[row, script[place]] = 100.0
        return wanted

    monkeypatch.setattr(decoder, "forward", forward)
    monkeypatch.setattr(decoder, "logits", logits)
