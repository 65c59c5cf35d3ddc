"""The same tiny model in transformers, to compare with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.tiny import tiny_weights


def transformers_model(config: dict[str, Any], seed: int = 0) -> Any:
    """transformers' model of a tiny config, with the weights `tiny_weights` draws for it."""
    import transformers

    settings = transformers.AutoConfig.for_model(
        **{key: value for key, value in config.items() if key != "architectures"}
    )
    model = transformers.AutoModelForCausalLM.from_config(settings, attn_implementation="eager").float().eval()
    weights = tiny_weights(config, seed)
    if config["tie_word_embeddings"]:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights)
    return model


@torch.inference_mode()
def peer_logits(model: Any, tokens: list[int]) -> Tensor:
    """Logits after each token."""
    logits: Tensor = model(torch.tensor([tokens])).logits[0]
    return logits


def random_tokens(count: int, vocab: int = 97, seed: int = 1) -> list[int]:
    """Seeded token ids."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab, (count,), generator=generator).tolist()
